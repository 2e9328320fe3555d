//! Throw-away servers that are made to suffer a known cause, with labels.
