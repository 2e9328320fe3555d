//! What mysqld_safe (mariadbd-safe) says of a server that ended as soon as it was started, where nothing of the server's own stands between:
//! its log is another file, or the system's.
//!
//! ```text
//! 240304 10:11:12 mysqld_safe Logging to syslog.
//! 240304 10:11:12 mysqld_safe Starting mysqld daemon with databases from /data
//! 240304 10:11:13 mysqld_safe mysqld from pid file /run/mysqld/mysqld.pid ended
//! ```

use jiff::civil::DateTime;

use crate::clock;

/// What that means.
pub(crate) const ENDED_AT_ONCE: &str = "the server ended as soon as mysqld_safe had started it, and what it said stands in another log: that of \
                                        log-error, or the system's (journalctl, syslog)";

/// The line of mysqld_safe's in which the last server that it started ended at once; None where that one ran, or says something itself.
pub(crate) fn ended_at_once(text: &str) -> Option<&str> {
    /// By judgement: who stops a server by hand lets it run for longer.
    const AT_ONCE_S: f64 = 10.0;
    let mut started: Option<DateTime> = None;
    let mut ended: Option<&str> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some(words) = words(line) else {
            started = None;
            ended = ended.filter(|_| !line.contains("ready for connections"));
            continue;
        };
        if words.starts_with("Starting ") {
            started = clock::time(line);
            ended = None;
        } else if words.contains(" from pid file ") && words.trim_end().ends_with(" ended") {
            let ran = started.take().zip(clock::time(line)).map(|(from, to)| clock::seconds(from, to));
            ended = ran.filter(|ran| (0.0..=AT_ONCE_S).contains(ran)).map(|_| line);
        }
    }
    ended
}

/// What mysqld_safe says in a line that begins with a time.
fn words(line: &str) -> Option<&str> {
    const SAFE: [&str; 2] = [" mysqld_safe ", " mariadbd-safe "];
    line.starts_with(|c: char| c.is_ascii_digit())
        .then(|| SAFE.iter().find_map(|safe| line.split_once(*safe)))
        .flatten()
        .map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    const STARTED: &str = "240304 10:11:12 mysqld_safe Logging to syslog.\n240304 10:11:12 mysqld_safe Starting mysqld daemon with databases \
                           from /data\n";
    const ENDED: &str = "240304 10:11:13 mysqld_safe mysqld from pid file /run/mysqld/mysqld.pid ended\n";

    fn headlines(text: &str) -> Vec<String> {
        let found = spindoctor_rules::diagnose(&window(&recognise("a.txt", text))).findings;
        found.into_iter().map(|finding| finding.headline).collect()
    }

    #[test]
    fn a_server_that_ends_as_soon_as_it_is_started_does_not_start() {
        let text = format!("{STARTED}{ENDED}");
        let says = crate::error_log::read(&text).says;
        assert_eq!(says, [ENDED_AT_ONCE]);
        let headlines = headlines(&text);
        assert!(
            headlines.len() == 1 && headlines[0].starts_with("The server does not start"),
            "{headlines:?}"
        );
    }

    #[test]
    fn a_server_that_ran_or_says_why_it_ended_or_was_started_again_did_not_end_at_once() {
        let late = ENDED.replace("10:11:13", "12:00:00");
        let said = "240304 10:11:13 [ERROR] Aborting\n";
        let ready = "240304 10:12:13 [Note] mysqld: ready for connections.\n";
        let again = STARTED.replace("10:11:12", "10:15:00");
        for text in [
            format!("{STARTED}{late}"),
            format!("{STARTED}{said}{ENDED}"),
            format!("{STARTED}{ENDED}{ready}"),
            format!("{STARTED}{ENDED}{again}"),
            ENDED.to_owned(),
            "mysqld_safe mysqld from pid file é ended".to_owned(),
        ] {
            assert_eq!(ended_at_once(&text), None, "{text}");
        }
    }
}
