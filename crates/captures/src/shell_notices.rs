//! What a shell says of a server that it had started and that a signal ended (bash, jobs.c):
//!
//! ```text
//! /usr/bin/mysqld_safe: line 183:  4711 Killed                  nohup /usr/sbin/mysqld --user=mysql < /dev/null
//! ```

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By SIGKILL.
    Killed,
    /// By a signal of its own.
    Crashed,
}

/// The words for a signal, and what it says of the server.
const SIGNALS: [(&str, Ended); 5] = [
    ("Killed", Ended::Killed),
    ("Segmentation fault", Ended::Crashed),
    ("Aborted", Ended::Crashed),
    ("Bus error", Ended::Crashed),
    ("Illegal instruction", Ended::Crashed),
];

/// Scripts that start servers, and do little else.
const SCRIPTS: [&str; 5] =
    ["mysqld_safe", "mariadbd-safe", "libmysql.sh", "libmariadb.sh", "libmariadbgalera.sh"];
const SERVERS: [&str; 4] = ["mysqld", "mariadbd", "mysqld-debug", "mysqld.bin"];

/// Words of a command that are looked at.
const MOST_WORDS: usize = 100;

/// What a line says of a server; None for one of another program.
pub(crate) fn of_server(line: &str) -> Option<Ended> {
    let (script, ended, command) = parts(line)?;
    let is_file = |word: &str, names: &[&str]| {
        let word = word.trim_matches(['"', '\'']);
        names.contains(&word.rsplit('/').next().unwrap_or(word))
    };
    let mut words = command.split_whitespace().take(MOST_WORDS);
    // Images of containers start a server without a network first, by `"$@" --skip-networking`.
    let is_server = is_file(script.rsplit(' ').next().unwrap_or(script), &SCRIPTS)
        || words.any(|word| is_file(word, &SERVERS) || word == "--skip-networking");
    is_server.then_some(ended)
}

/// A line without the command, in whose options secrets may stand.
pub(crate) fn without_command(line: &str) -> &str {
    parts(line).map_or(line, |(.., command)| line[..line.len() - command.len()].trim_end())
}

/// The script, how what it started ended, and the command of that.
fn parts(line: &str) -> Option<(&str, Ended, &str)> {
    let (script, rest) = line.split_once(": line ")?;
    let (number, rest) = rest.split_once(':')?;
    let (process, rest) = rest.trim_start().split_once([' ', '\t'])?;
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let rest = rest.trim_start();
    let signal = SIGNALS.iter().find_map(|(words, ended)| Some((*ended, rest.strip_prefix(words)?)));
    let (ended, command) = signal.filter(|_| is_number(number.trim()) && is_number(process))?;
    Some((script, ended, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts_of(text: &str) -> Vec<crate::Part> {
        crate::recognise("a.txt", text)
    }

    #[test]
    fn a_server_that_the_shell_saw_killed_says_so() {
        let text = "/usr/bin/mysqld_safe: line 183:  4711 Killed                  nohup /usr/sbin/mysqld --user=mysql\n";
        let says: Vec<String> = parts_of(text).into_iter().flat_map(|part| part.says).collect();
        assert_eq!(says.len(), 1, "{says:?}");
        assert!(says[0].starts_with("the server was killed (SIGKILL), as the shell says"), "{says:?}");
    }

    #[test]
    fn a_server_that_the_shell_saw_crash_has_crashed_and_its_options_are_not_shown() {
        let text = "/usr/bin/mysqld_safe: line 183:  4711 Segmentation fault      (core dumped) nohup /usr/sbin/mysqld \
                    --wsrep_sst_auth=sst:s3cret\n";
        let parts = parts_of(text);
        let findings = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert_eq!(findings.len(), 1, "{parts:?}");
        assert!(findings[0].headline.starts_with("The server crashed"), "{}", findings[0].headline);
        assert!(!format!("{findings:?}").contains("s3cret"), "{findings:?}");
    }

    #[test]
    fn a_notice_is_of_a_server_by_its_script_or_its_program() {
        let of = |script: &str, words: &str| of_server(&format!("{script}: line 9: 811 {words}"));
        assert_eq!(of("/entrypoint.sh", "Killed    \"$@\" --skip-networking"), Some(Ended::Killed));
        assert_eq!(of("start.sh", "Aborted (core dumped) \"/opt/bin/mariadbd\""), Some(Ended::Crashed));
        assert_eq!(of("Mar 02 03:11:10 db2 mysqld_safe", "Bus error   $CMD"), Some(Ended::Crashed));
        assert_eq!(of("backup.sh", "Killed    mysqldump --all-databases"), None);
        assert_eq!(of("start.sh", "Terminated    mysqld"), None);
        assert_eq!(of_server("mysqld: line 9: Killed"), None);
        assert_eq!(of_server("mysqld_safe: line nine: 811 Killed mysqld"), None);
    }
}
