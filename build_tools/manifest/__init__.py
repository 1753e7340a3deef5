"""Reading the manifests: TOML files to frozen, checked records."""
