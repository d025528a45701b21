"""What a release consists of, beside its images: `make release`."""
