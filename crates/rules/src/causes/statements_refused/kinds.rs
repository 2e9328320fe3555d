//! Which errors there are, of share/messages_to_clients.txt, and of which kind they can be.

/// Errors of a login alone (sql/auth, share/messages_to_clients.txt): connections-exhausted and logins-refused count these.
pub(super) const OF_LOGINS: [u32; 12] =
    [1040, 1042, 1043, 1045, 1129, 1130, 1203, 1698, 1862, 3118, 3159, 3955];

/// Errors of logins and of statements.
pub(super) const OF_BOTH: [u32; 3] = [1044, 1049, 1226];

/// The network, of which no statement fails: connections that broke, and pools that were idle for too long.
pub(super) const OF_CONNECTIONS: [u32; 8] = [1152, 1158, 1159, 1160, 1161, 1184, 3032, 4031];

/// A packet that is too large is refused before it is a statement, and its connection ends: it is in no count of statements (seen on
/// MySQL 9.7; sql/sql_parse.cc, do_command).
pub(super) const TOO_LARGE: u32 = 1153;

/// Errors of other causes: a lock wait of at least a second, a deadlock, no room for a prepared statement.
pub(super) const OF_OTHER_CAUSES: [u32; 3] = [1205, 1213, 1461];

/// Of files that could not be opened, listed or used: where the server is at its limit of open files, that is why.
pub(super) const OF_FILES: [u32; 4] = [1016, 1017, 1018, 1030];

/// What an error says of the server, which decides how bad it is and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ReadOnly,
    Full,
    /// No number is counted, and there is no room for temporary files.
    NoTemporaryRoom,
    /// The server may open no more files.
    NoFiles,
    Limit,
    Missing,
    Denied,
    Time,
    /// Of what an application does with its data; many expect it.
    Expected,
    Other,
    /// Nobody counts which.
    Unknown,
}

impl Kind {
    pub(super) fn is_expected(self) -> bool {
        matches!(self, Self::Expected | Self::Unknown)
    }
}
