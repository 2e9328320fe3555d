//! The only code that changes a server's settings, and its rollback.
