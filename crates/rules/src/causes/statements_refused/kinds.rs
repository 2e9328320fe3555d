//! Which errors there are, of share/messages_to_clients.txt, and what each number says.

/// Errors of a login alone (sql/auth, share/messages_to_clients.txt): connections-exhausted and logins-refused count these.
pub(super) const OF_LOGINS: [u32; 12] =
    [1040, 1042, 1043, 1045, 1129, 1130, 1203, 1698, 1862, 3118, 3159, 3955];

/// Errors of logins and of statements.
pub(super) const OF_BOTH: [u32; 3] = [1044, 1049, 1226];

/// The network, of which no statement fails: connections that broke, and pools that were idle for too long.
pub(super) const OF_CONNECTIONS: [u32; 8] = [1152, 1158, 1159, 1160, 1161, 1184, 3032, 4031];

/// Errors of other causes: a lock wait of at least a second, a deadlock, no room for a prepared statement.
pub(super) const OF_OTHER_CAUSES: [u32; 3] = [1205, 1213, 1461];

/// What an error says of the server, which decides how bad it is and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ReadOnly,
    Full,
    /// No number is counted, and there is no room for temporary files.
    NoTemporaryRoom,
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
    /// Of share/messages_to_clients.txt.
    pub(super) fn from_number(number: u32) -> Self {
        match number {
            1290 | 1792 | 1836 | 3989 => Self::ReadOnly,
            1021 | 1026 | 1028 | 1030 | 1034 | 1037 | 1041 | 1114 | 1194 | 1195 | 3675 => Self::Full,
            1153 | 1226 | 1390 => Self::Limit,
            1049 | 1051 | 1054 | 1109 | 1146 | 1305 | 1356 => Self::Missing,
            1044 | 1142 | 1143 | 1227 | 1370 | 1410 | 1419 => Self::Denied,
            1317 | 1969 | 3024 => Self::Time,
            1022 | 1048 | 1062 | 1169 | 1216 | 1217 | 1264 | 1265 | 1292 | 1364 | 1365 | 1366 | 1406
            | 1451 | 1452 | 1557 | 1586 | 1644 | 3572 | 3819 | 4025 => Self::Expected,
            _ => Self::Other,
        }
    }

    pub(super) fn is_expected(self) -> bool {
        matches!(self, Self::Expected | Self::Unknown)
    }
}

/// What an error of an application's data says, of share/messages_to_clients.txt.
pub(super) fn data_error(number: u32) -> Option<&'static str> {
    Some(match number {
        1022 | 1062 | 1169 | 1557 | 1586 => "the key is there already",
        1048 | 1364 => "a column without a default gets no value",
        1216 | 1217 | 1451 | 1452 => "a foreign key forbids it",
        1264 | 1265 | 1292 | 1366 | 1406 => "a value does not fit its column",
        1644 => "a trigger or procedure refuses them by SIGNAL",
        3572 => "NOWAIT finds the row or table locked",
        3819 | 4025 => "a CHECK constraint forbids it",
        _ => return None,
    })
}
