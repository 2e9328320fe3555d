//! What a program prints below an error: the functions that it is in, and of Connector/J what broke its connection.
//!
//! ```text
//! com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure
//!
//! The last packet successfully received from the server was 1,812,044 milliseconds ago. The last packet sent successfully to the server ...
//!         at com.mysql.cj.jdbc.exceptions.SQLError.createCommunicationsException(SQLError.java:174)
//! Caused by: java.io.EOFException: Can not read response from server. Expected to read 4 bytes, read 0 bytes ...
//! ```

use std::borrow::Cow;

use spindoctor_model::number;

/// What Connector/J says of each connection that is not made or lost.
pub(super) const LINK_FAILURE: &str = "Communications link failure";
/// Stands for a connection on which nothing had come for long.
pub(super) const SILENT_FOR_LONG: &str = "no packet for long";
/// What it says below that of why.
const CAUSES: [&str; 10] = [
    "Connection refused",
    "UnknownHostException",
    "connect timed out",
    "Connect timed out",
    "Connection timed out",
    "NoRouteToHostException",
    "SSLHandshakeException",
    "Read timed out",
    "server configured value of 'wait_timeout'",
    "has not received any packets",
];
const RECEIVED: &str = "The last packet successfully received from the server was ";
/// From so long on a connection may have been closed because it was idle, milliseconds: the load balancers of AWS end one after 60 s.
const SILENT_MS: u64 = 60_000;
/// Lines below an error that are looked at, and those of them that say why.
const MOST_BELOW: usize = 300;
const MOST_SAYING: usize = 20;

/// True for a line of the functions that a program prints below an exception, and of what stands beside them.
pub(crate) fn is_of_trace(line: &str) -> bool {
    const BEGINS: [&str; 11] = [
        "Caused by: ",
        "Suppressed: ",
        "File \"",
        "Stack trace:",
        "goroutine ",
        "thrown in ",
        "Traceback (most recent call last)",
        "The above exception was ",
        "During handling of the above exception",
        "The last packet ",
        "The driver has not received any packets",
    ];
    let line = line.trim_start();
    line.starts_with("at ") && line.contains('(')
        || line.starts_with("... ") && line.ends_with(" more")
        || is_of_php(line)
        || BEGINS.iter().any(|begin| line.starts_with(begin))
}

/// `#0 /srv/shop/db.php(33): PDO->__construct()`, `#2 {main}`
fn is_of_php(line: &str) -> bool {
    let Some((number, rest)) = line.strip_prefix('#').and_then(|rest| rest.split_once(' ')) else {
        return false;
    };
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && (rest.contains(".php(") || rest.starts_with("{main}") || rest.starts_with("[internal function]"))
}

/// True where a line, below an error, is of what its program prints with it: an empty one among these, and what Python shows of its source.
pub(crate) fn goes_on(lines: &[&str], at: usize) -> bool {
    let line = lines[at];
    let is_below_place = || at > 0 && lines[at - 1].trim_start().starts_with("File \"");
    let is_mark = || line.contains(['^', '~']) && line.chars().all(|c| " ^~".contains(c));
    is_of_trace(line)
        || line.trim().is_empty() && lines.get(at + 1).is_some_and(|next| is_of_trace(next))
        || line.starts_with("    ") && is_below_place()
        || is_mark()
}

/// A log in which each failure of a link has in its own line what is said of it below.
pub(crate) fn with_causes(text: &str) -> Cow<'_, str> {
    if !text.contains(LINK_FAILURE) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut whole = String::with_capacity(text.len());
    for (at, line) in lines.iter().enumerate() {
        whole.push_str(line);
        if line.contains(LINK_FAILURE) {
            for cause in causes(&lines, at) {
                whole.push_str(" (");
                whole.push_str(cause);
                whole.push(')');
            }
        }
        whole.push('\n');
    }
    Cow::Owned(whole)
}

/// What is said of the failure in a line by those below it.
fn causes(lines: &[&str], head: usize) -> Vec<&'static str> {
    let below = (head + 1..lines.len()).take(MOST_BELOW).take_while(|at| goes_on(lines, *at));
    let says = |line: &&str| {
        ["Caused by: ", "The last packet ", "The driver "].iter().any(|begin| line.starts_with(begin))
    };
    let mut found: Vec<&'static str> = Vec::new();
    for line in below.map(|at| lines[at].trim_start()).filter(says).take(MOST_SAYING) {
        let is_silent = silent_ms(line).is_some_and(|ms| ms >= SILENT_MS);
        let said = CAUSES.into_iter().filter(|cause| line.contains(cause));
        for cause in said.chain(is_silent.then_some(SILENT_FOR_LONG)) {
            if !found.contains(&cause) {
                found.push(cause);
            }
        }
    }
    found
}

/// For how long nothing had come on a connection that was lost, milliseconds.
fn silent_ms(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(RECEIVED)?;
    let (count, _) = rest.split_once(" milliseconds ago")?;
    let digits: String = count.chars().filter(|c| !",.\u{a0}\u{202f}".contains(*c)).collect();
    digits.parse().ok()
}

/// For how long nothing had come on the connections that were lost, in a sentence, where it was long.
pub(crate) fn silence(text: &str) -> Option<String> {
    let longest_ms = text.lines().filter_map(silent_ms).max().filter(|ms| *ms >= SILENT_MS)?;
    let longest = number::duration(longest_ms as f64 / 1e3);
    Some(format!(
        "nothing had come from the server for {longest} on the connection that was lost: a timeout that is about as long is what closed it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn says(text: &str) -> Vec<String> {
        let parts = crate::recognise("x", text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::ErrorLog], "{parts:#?}");
        parts.into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn a_failure_of_a_link_says_what_stands_below_it() {
        let failure = |last: &str, cause: &str| {
            format!(
                "Caused by: com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure\n\n{last}\n\tat \
                 com.mysql.cj.jdbc.ConnectionImpl.connect(ConnectionImpl.java:7)\n\t... 9 more\nCaused by: \
                 com.mysql.cj.exceptions.CJCommunicationsException: Communications link failure\n\n{last}\n\tat a.b.C.d(C.java:7)\n\
                 Caused by: {cause}\n\tat a.b.C.e(C.java:8)\n"
            )
        };
        let none = "The last packet sent successfully to the server was 0 milliseconds ago. The driver has not received any packets from the \
                    server.";
        let ago = |ms: &str| {
            format!(
                "{RECEIVED}{ms} milliseconds ago. The last packet sent successfully to the server was {ms} milliseconds ago."
            )
        };
        let eof =
            "java.io.EOFException: Can not read response from server. Expected to read 4 bytes, read 0 bytes";
        for (last, cause, meaning) in [
            (
                none,
                "java.net.ConnectException: Connection refused (Connection refused)",
                super::super::REFUSED,
            ),
            (
                none,
                "java.net.UnknownHostException: db7: Name or service not known",
                super::super::UNKNOWN_HOST,
            ),
            (none, "java.net.SocketTimeoutException: Connect timed out", super::super::NO_ANSWER),
            (none, "java.net.NoRouteToHostException: No route to host", super::super::NO_ANSWER),
            (none, eof, super::super::NO_GREETING),
            (&ago("30,012"), "java.net.SocketTimeoutException: Read timed out", super::super::READ_TIMEOUT),
            (&ago("90,012"), "java.net.SocketTimeoutException: Read timed out", super::super::READ_TIMEOUT),
            (&ago("1,812,044"), eof, super::super::SILENT),
            (&ago("12"), eof, super::super::LOST),
        ] {
            // One failure, of which each exception of its chain says the same.
            assert_eq!(says(&failure(last, cause))[0], meaning, "{cause}");
        }
        let silent = says(&failure(&ago("1,812,044"), eof));
        assert!(silent[1].starts_with("nothing had come from the server for 30 min"), "{silent:?}");
        let timeout = "The last packet successfully received from the server was 28,900,017 milliseconds ago. The last packet sent \
                       successfully to the server was 28,900,018 milliseconds ago. is longer than the server configured value of \
                       'wait_timeout'. You should consider either expiring and/or testing connection validity";
        assert_eq!(says(&failure(timeout, eof))[0], super::super::IDLE);
    }

    #[test]
    fn what_is_below_another_error_is_none_of_a_failure_s() {
        let text = "java.sql.SQLException: Communications link failure\n\tat a.b.C.d(C.java:7)\nit went on\nCaused by: \
                    java.net.ConnectException: Connection refused\n";
        assert_eq!(with_causes(text), text);
    }

    #[test]
    fn functions_of_php_and_python_are_of_the_error_above_them() {
        let lines =
            ["#0 /srv/db.php(3): PDO->__construct()", "#2 {main}", "  thrown in /srv/db.php on line 3"];
        assert!(lines.iter().all(|line| is_of_trace(line)));
        for line in ["#0  0x0000 in f () at a.c:3", "# a.php(3)", "#x a.php(3)", "#1", ""] {
            assert!(!is_of_trace(line), "{line}");
        }
        let python =
            ["  File \"a.py\", line 7, in execute", "    return self.execute()", "           ^^^^^^", ""];
        assert!((0..3).all(|at| goes_on(&python, at)) && !goes_on(&python, 3));
        assert!(!goes_on(&["a", "    indented"], 1));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Communications link failure|Caused by: |The last packet successfully received from the server was |1,2 milliseconds ago|#1 |File \"|é|    |\n){0,40}") {
            with_causes(&text);
            silence(&text);
        }
    }
}
