"""A workflow of GitHub's, read from its own file and run here, job by job: ``nox -s rehearse``."""
