"""The domain as text: what is read, what is refused, what is written."""

import codecs
import os
import xml.parsers.expat

import pytest
from support import domains
from support.domains import mdev, placeholder, small_domain

from dra.errors import Refused
from dra.intent import Mode
from dra.reasons import Reason
from hooksidecar.domain import edit_domain

DEVICE = mdev("gpu0")
REST = "\n\t<description>caf\u00e9 \u4e2d \U0001f4a5 &lt;b&gt; &#13; &quot;</description>"
TEXT = small_domain(placeholder("gpu0"), rest=REST).decode()


def edit(domain: bytes) -> bytes:
    return edit_domain(domain, [DEVICE], mode=Mode.PLACEHOLDER, vmi=None)


def refused(domain: bytes) -> str:
    with pytest.raises(Refused) as caught:
        edit(domain)
    assert caught.value.reason is Reason.INVALID_DOMAIN
    return str(caught.value)


def declared(encoding: str, text: str = TEXT) -> str:
    return f'<?xml version="1.0" encoding="{encoding}"?>\n{text}'


LATIN = TEXT.replace("\u4e2d \U0001f4a5", "&#x4e2d; &#x1f4a5;")


@pytest.mark.parametrize(
    "domain",
    [
        pytest.param(TEXT.encode(), id="utf-8"),
        pytest.param(declared("UTF-8").encode(), id="declaration"),
        pytest.param(codecs.BOM_UTF8 + TEXT.encode(), id="bom"),
        pytest.param(codecs.BOM_UTF8 + b"\r\n" + declared("utf-8").encode(), id="bom-line-break-declaration"),
        pytest.param(b"\n \t" + declared("UTF-8").encode(), id="blanks-declaration"),
        pytest.param(declared("UTF-16").encode("utf-16"), id="utf-16"),
        pytest.param(TEXT.encode("utf-16"), id="utf-16-no-declaration"),
        pytest.param(declared("ISO-8859-1", LATIN).encode("latin-1"), id="latin-1"),
    ],
)
def test_every_encoding_gives_the_same_utf_8_without_declaration(domain):
    answer = edit(domain)
    assert answer == edit(TEXT.encode())
    assert answer.startswith(b"<domain ")
    assert b"<?xml" not in answer
    assert 'caf\u00e9 \u4e2d \U0001f4a5 &lt;b&gt; &#13; "</description>' in answer.decode("utf-8")


@pytest.mark.parametrize(
    "domain",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b" \n", id="blank"),
        pytest.param(b"no XML", id="text"),
        pytest.param(TEXT.encode()[:-3], id="cut"),
        pytest.param(TEXT.encode() + b"<more/>", id="two-roots"),
        pytest.param(b"<domain><devices>&who;</devices></domain>", id="unknown-entity"),
        pytest.param(b"<domain><devices>\x00</devices></domain>", id="nul"),
        pytest.param(b"<domain><devices>\xff</devices></domain>", id="no-utf-8"),
        pytest.param(declared("nonsense").encode(), id="unknown-encoding"),
        pytest.param(b"<domain><devices>" + b"<a>" * 5000 + b"</a>" * 5000 + b"</devices></domain>", id="too-deep"),
        pytest.param(b"<domain><devices><qemu:x/></devices>", id="no-namespace-cut"),
    ],
)
def test_what_is_no_xml_is_refused(domain):
    assert refused(domain).startswith("the domain XML cannot be edited: it is no well-formed XML at line ")


@pytest.mark.parametrize(
    "domain",
    [
        pytest.param(b"<devices/>", id="other-root"),
        pytest.param(b"<domain/>", id="no-devices"),
        pytest.param(b"<domain><devices/><devices/></domain>", id="two-devices"),
        pytest.param(b"<domain><x><devices/></x></domain>", id="devices-deeper"),
        pytest.param(b'<domain xmlns="urn:x"><devices/></domain>', id="other-namespace"),
        pytest.param(b"<Domain><devices/></Domain>", id="upper-case"),
    ],
)
def test_what_is_no_domain_is_refused(domain):
    assert "it must be a <domain> with one <devices>" in refused(domain)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))


@pytest.mark.parametrize(
    "doctype",
    [
        pytest.param("<!DOCTYPE domain>", id="bare"),
        pytest.param('<!DOCTYPE domain SYSTEM "http://192.0.2.1/secret.dtd">', id="external"),
        pytest.param('<!DOCTYPE domain [<!ENTITY secret "secret">]>', id="internal"),
        pytest.param('<!-- x --><!DOCTYPE domain [<!ATTLIST domain secret CDATA "secret">]><?secret?>', id="attribute"),
        pytest.param(f'<!DOCTYPE domain [<!ENTITY l0 "secret">{LAUGHS}]>', id="laughs"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_doctype_is_refused_and_not_echoed(doctype, encoding):
    message = refused((doctype + TEXT).encode(encoding))
    assert "it has a DOCTYPE" in message
    assert "secret" not in message


def test_expanding_entities_cost_no_memory():
    bomb = f'<!DOCTYPE domain [<!ENTITY l0 "ha">{LAUGHS}]><domain name="&l11;"><devices>&l11;</devices></domain>'
    assert "DOCTYPE" in refused(bomb.encode()) or "no well-formed XML" in refused(bomb.encode())


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "dtd",
    [
        '<!ENTITY who SYSTEM "file://{path}">',
        '<!ENTITY % who SYSTEM "file://{path}"> %who;',
        '<!NOTATION who SYSTEM "file://{path}">',
    ],
    ids=["general", "parameter", "notation"],
)
def test_no_file_is_opened(tmp_path, dtd):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # whoever opens it to read waits for ever
    text = TEXT.replace("ns_vm", "&who;") if "ENTITY who" in dtd else TEXT
    assert "DOCTYPE" in refused(f"<!DOCTYPE domain [{dtd.format(path=fifo)}]>{text}".encode())
    assert "DOCTYPE" in refused(f'<!DOCTYPE domain SYSTEM "file://{fifo}">{TEXT}'.encode())


FOREIGN = """
\t<!-- a comment --><?hint keep="me"?>
\t<description xml:lang="en"><![CDATA[<b> & ]] more]]> and &amp; text</description>
\t<metadata><kubevirt xmlns="http://kubevirt.io"><uid/></kubevirt><a:x xmlns:a="urn:a" a:b="1" c="2"/></metadata>
\t<qemu:commandline><qemu:arg value="-fw_cfg"/><qemu:arg value="a&#10;b&quot;"/></qemu:commandline>"""


@pytest.mark.parametrize("mode", Mode)
def test_all_that_is_not_ours_stays(mode):
    devices = [placeholder("gpu0")] if mode is Mode.PLACEHOLDER else []
    domain = (
        b"<!-- before --><?before x?>" + small_domain(*devices, "<!-- dev -->text", rest=FOREIGN) + b"<!-- after -->"
    )
    answer = edit_domain(domain, [DEVICE], mode=mode, vmi=None)
    aliases = ["ua-gpu-gpu0", "ua-dravirt-gpu0"]
    appended = mode is Mode.APPEND
    assert domains.outside(answer, aliases, appended=appended) == domains.outside(domain, aliases, appended=appended)
    for text in (
        "<!-- before --><?before x?><domain ",
        "</domain><!-- after -->",
        "<![CDATA[<b> & ]] more]]> and &amp; text",
        '<!-- a comment --><?hint keep="me"?>',
        '<kubevirt xmlns="http://kubevirt.io"><uid/></kubevirt>',
        '<a:x xmlns:a="urn:a" a:b="1" c="2"/>',
        '<qemu:arg value="a&#10;b&quot;"/>',
    ):
        assert text in answer.decode()
    assert edit_domain(answer, [DEVICE], mode=mode, vmi=None) == answer


def test_answer_can_be_read_without_any_entity_or_dtd():
    """As Go's decoder does: no declaration, no DOCTYPE, UTF-8. expat is a reader other than the one we write with."""
    seen = []
    reader = xml.parsers.expat.ParserCreate("UTF-8")
    reader.XmlDeclHandler = lambda *_: seen.append("declaration")
    reader.StartDoctypeDeclHandler = lambda *_: seen.append("doctype")
    reader.StartElementHandler = lambda name, _: seen.append(name)
    reader.Parse(edit(declared("UTF-16").encode("utf-16")), True)
    assert seen[0] == "domain"
    assert not {"declaration", "doctype"} & set(seen)
    assert seen.count("hostdev") == 1
