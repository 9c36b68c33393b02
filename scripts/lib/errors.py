"""The errors a user can mend. The command line prints them as one line; anything else is a bug and shows its trace."""


class WorkflowError(Exception):
    """Base of the family: the message names the file (or name) at fault and the remedy."""


class ConfigError(WorkflowError):
    """A setting, a YAML file or a name that is wrong."""


class DataError(WorkflowError):
    """A video, annotation or intermediate file that is missing or malformed."""


class EngineError(WorkflowError):
    """A model, OCR engine, encoder or server that could not do its work."""
