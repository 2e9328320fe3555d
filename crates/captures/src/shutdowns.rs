//! That the last thing that a server did was to shut down because it was asked to: by a signal, as systemd, docker and Kubernetes send it, or
//! by a client.
//!
//! ```text
//! [System] [MY-013172] [Server] Received SHUTDOWN from user <via user signal>. Shutting down mysqld (Version: 8.0.29).
//! [Note] /usr/sbin/mariadbd (initiated by: unknown): Normal shutdown
//! [Note] /usr/sbin/mysqld: Normal shutdown
//! ```

use jiff::civil::DateTime;
use spindoctor_model::number;

use crate::{clock, log_troubles};

/// A server that has run for so long, seconds, was not ended by what watches its start. By judgement: probes and time limits of a start are
/// minutes.
const SOON_S: f64 = 900.0;

/// That in a sentence, where the server was not started again below it.
pub(crate) fn on_request(text: &str) -> Option<String> {
    let mut ready: Option<DateTime> = None;
    let mut asked: Option<(&str, Option<f64>)> = None;
    for line in text.lines() {
        let time = || clock::time(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()));
        if line.contains("ready for connections.") && !line.contains("X Plugin ready") {
            (ready, asked) = (time(), None);
        } else if line.contains(" as process ") && log_troubles::begins_start(&line.to_ascii_lowercase()) {
            (ready, asked) = (None, None);
        } else if let Some(by) = by_whom(line) {
            let after_s = ready.zip(time()).map(|(ready, asked)| clock::seconds(ready, asked));
            asked = Some((by, after_s));
        }
    }
    let (by, after_s) = asked?;
    let soon = after_s.filter(|after_s| (0.0..=SOON_S).contains(after_s));
    let soon =
        soon.map_or_else(String::new, |after_s| format!(", {} after it was ready", number::tenths(after_s)));
    Some(format!(
        "the server shut down because it was asked to{by}{soon}, and was not started again below that"
    ))
}

/// Who asked, of a line that says that somebody did.
fn by_whom(line: &str) -> Option<&'static str> {
    const BY_SIGNAL: &str = " (SIGTERM, as systemctl stop, docker stop and Kubernetes send it)";
    const BY_CLIENT: &str = " by a client (SHUTDOWN, mysqladmin shutdown)";
    if let Some((_, rest)) = line.split_once("Received SHUTDOWN from user ") {
        return Some(if rest.starts_with("<via user signal>") { BY_SIGNAL } else { BY_CLIENT });
    }
    let before =
        line.trim_end().strip_suffix(": Normal shutdown").filter(|before| before.contains("[Note]"))?;
    match before.split_once("(initiated by: ") {
        Some((_, who)) if who.starts_with("unknown") => Some(BY_SIGNAL),
        Some(_) => Some(BY_CLIENT),
        None => Some(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = "2024-05-02T09:00:01.0Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: '8.0.36'\n";

    #[test]
    fn a_shutdown_that_somebody_asked_for_says_who_and_how_soon() {
        let signal = "2024-05-02T09:01:31.0Z 0 [System] [MY-013172] [Server] Received SHUTDOWN from user <via user signal>. Shutting down\n";
        let said = on_request(&format!("{READY}{signal}")).unwrap();
        assert!(said.contains("(SIGTERM") && said.contains("90 s after it was ready"), "{said}");
        let late = signal.replace("T09:01", "T19:01");
        assert!(!on_request(&format!("{READY}{late}")).unwrap().contains("after it was ready"));
        for (line, by) in [
            (
                "[System] [MY-013172] [Server] Received SHUTDOWN from user root. Shutting down mysqld",
                "by a client",
            ),
            ("[Note] /usr/sbin/mariadbd (initiated by: unknown): Normal shutdown", "SIGTERM"),
            (
                "[Note] /usr/sbin/mariadbd (initiated by: root[root] @ localhost []): Normal shutdown",
                "by a client",
            ),
        ] {
            let said = on_request(&format!("2024-05-02 09:01:31 0 {line}\n")).unwrap();
            assert!(said.contains(by) && !said.contains("root"), "{said}");
        }
    }

    #[test]
    fn a_server_that_was_started_again_or_never_stopped_says_nothing() {
        let stopped = "240502  9:01:31 [Note] /usr/sbin/mysqld: Normal shutdown\n";
        assert!(on_request(stopped).is_some());
        let start = "240502  9:01:41 [Note] /usr/sbin/mysqld (mysqld 5.5.62) starting as process 7 ...\n";
        assert_eq!(on_request(&format!("{stopped}{start}")), None);
        assert_eq!(on_request(&format!("{stopped}{READY}")), None);
        assert_eq!(on_request(READY), None);
    }
}
