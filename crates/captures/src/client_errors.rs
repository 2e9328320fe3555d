//! Errors of the server as clients and drivers print them.

/// Errors of the server that a client prints and that causes rest on: ER_DISK_FULL, ER_CON_COUNT_ERROR, ER_OUT_OF_RESOURCES,
/// ER_RECORD_FILE_FULL, ER_CANT_CREATE_THREAD.
const OF_CLIENTS: [&str; 5] = ["1021", "1040", "1041", "1114", "1135"];

/// An error of the server as a client or a driver prints it: `ERROR 1040 (HY000): Too many connections`,
/// `(1040, 'Too many connections')`, `SQLSTATE[08004] [1040] Too many connections`.
pub(crate) fn is_of_client(line: &str) -> bool {
    let has_number = |before: &str, after: &str| {
        line.match_indices(before).any(|(at, _)| {
            let rest = &line[at + before.len()..];
            OF_CLIENTS
                .iter()
                .any(|number| rest.strip_prefix(number).is_some_and(|rest| rest.starts_with(after)))
        })
    };
    let is_printed = line.trim_start_matches([' ', '`', '|', '"', '\'']).starts_with("ERROR ");
    is_printed && has_number("ERROR ", " (")
        || is_quoted(line)
        || has_number("(", ", '")
        || has_number("(", ", \"")
        || has_number("Got error: ", ":")
        || line.contains("SQLSTATE[") && has_number("] [", "] ")
        || line.contains("Can't create a new thread (errno ")
}

/// Such an error within what a person wrote, with the server's own words behind it: `and then ERROR 1040 (08004): Too many connections`.
fn is_quoted(line: &str) -> bool {
    /// The number, its SQLSTATE of five characters, and how the message begins.
    const MESSAGES: [(&str, &str); 2] =
        [("1040", "Too many connections"), ("1135", "Can't create a new thread")];
    line.match_indices("ERROR ").any(|(at, before)| {
        let rest = &line[at + before.len()..];
        MESSAGES.iter().any(|(number, message)| {
            let state = rest.strip_prefix(number).and_then(|rest| rest.strip_prefix(" ("));
            let behind = state.and_then(|rest| rest.split_once("): ")).filter(|(state, _)| state.len() == 5);
            behind.is_some_and(|(_, behind)| behind.starts_with(message))
        })
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TroubleKind;

    use super::*;
    use crate::error_log::{is_of_log, read};

    #[test]
    fn errors_as_clients_print_them_are_lines_of_a_log() {
        for (line, kind) in [
            ("ERROR 1040 (HY000): Too many connections", TroubleKind::TooManyConnections),
            ("OperationalError: (1040, 'Too many connections')", TroubleKind::TooManyConnections),
            ("SQLSTATE[08004] [1040] Too many connections", TroubleKind::TooManyConnections),
            (
                "mysqldump: Got error: 1040: Too many connections when trying to connect",
                TroubleKind::TooManyConnections,
            ),
            (
                "`ERROR 1021 (HY000): Disk full (/tmp/#sql_1.MAI); waiting for someone to free some space... (errno: 28)`",
                TroubleKind::WaitsForSpace,
            ),
            (
                "and more like this, then it says ERROR 1040 (08004): Too many connections",
                TroubleKind::TooManyConnections,
            ),
            ("ERROR 1135 (HY000): Can't create a new thread (errno 11); if you are", TroubleKind::NoThread),
        ] {
            assert!(is_of_log(line), "{line}");
            let kinds: Vec<_> = read(line).troubles.into_iter().map(|trouble| trouble.kind).collect();
            assert_eq!(kinds, [kind], "{line}");
        }
        assert!(
            !is_of_client("ERROR 1064 (42000): You have an error")
                && !is_of_client("see the ERROR 1040 (HY000)")
        );
    }
}
