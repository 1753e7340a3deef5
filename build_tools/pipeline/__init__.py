"""The whole build in one call: plan -> compile -> audit -> bundle."""
