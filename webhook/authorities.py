"""The authorities that sidecars trust where no file names them: those of the server's own certificate.

They come from whoever keeps the certificate, and change while the server runs. A sidecar keeps what it is given as long
as its VM runs: so it gets those of the moment in which its pod is made, and where there are none yet, the pod waits.
"""

from collections.abc import Callable
from dataclasses import replace

from dra.reasons import Reason
from webhook.config import Config
from webhook.decision import AdmissionRequest, Decision
from webhook.readiness import Condition
from webhook.servicekeys import MAX_AUTHORITY

Decide = Callable[[AdmissionRequest, Config], Decision]


class OwnAuthorities:
    """The configuration of the moment, completed by the authorities of the moment."""

    def __init__(self, config: Callable[[], Config], authorities: Callable[[], str]) -> None:
        """Complete what `config` gives by `authorities`, PEM, "" while they are not known."""
        self._config, self._authorities = config, authorities
        self._before = self._completed = Config()
        self._text = ""

    def config(self) -> Config:
        """Return the configuration to use now: the same value as long as nothing changes, which decisions go by."""
        config = self._config()
        if not config.lacks_authority:
            return config
        text = self._authorities()
        if config is not self._before or text != self._text:
            self._before, self._text = config, text
            self._completed = _with_authorities(config, text)
        return self._completed

    def check(self) -> Condition:
        """Return whether sidecars can be told whom to trust."""
        if not self.config().lacks_authority:
            return Condition(ready=True)
        if not self._text:
            return Condition(ready=False, detail="the authorities of the webhook's certificate are not known yet")
        # Waiting would not help, and without a ready replica no VM could even be changed.
        message = f"the authorities have {len(self._text)} characters, a sidecar takes {MAX_AUTHORITY}: set caFile"
        return Condition(ready=True, detail=f"no pod can be injected: {message}")


def only_with_authority(decide: Decide) -> Decide:
    """Return `decide` with its injections denied while the sidecar could not be told whom to trust."""

    def decide_with_authority(request: AdmissionRequest, config: Config) -> Decision:
        decision = decide(request, config)
        if decision.reason is Reason.INJECTED and config.lacks_authority:
            message = (
                "the sidecar must know whom to trust, and the authorities of dravirt's webhook are not known yet or"
                " too long to tell; KubeVirt tries again by itself, and the webhook's /readyz says what is in the way"
            )
            return Decision.deny(Reason.AUTHORITY_UNKNOWN, message)
        return decision

    return decide_with_authority


def shown(config: Config) -> Config:
    """Return the configuration for a person to look at what comes of it, where no certificate is at hand."""
    return (
        _with_authorities(config, "(the authorities of the webhook's certificate)")
        if config.lacks_authority
        else config
    )


def _with_authorities(config: Config, text: str) -> Config:
    if config.allocation_service is None or len(text) > MAX_AUTHORITY:
        return config
    return replace(config, allocation_service=replace(config.allocation_service, ca=text))
