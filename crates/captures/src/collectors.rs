//! What programs that collect logs put before each line of a server, taken off the lines that have no time or level of their own: a
//! backtrace, waits for latches, a status.
//!
//! ```text
//! Mar 04 10:11:12 db1 mysqld[4711]: /usr/sbin/mysqld(row_purge_step+0x310)[0xf2b3e0]      journalctl, syslog
//! 2024-03-04T10:11:12.123456789Z /usr/sbin/mysqld(row_purge_step+0x310)[0xf2b3e0]         docker logs -t, kubectl logs --timestamps
//! 2024-03-04T10:11:12.123456789Z stderr F /usr/sbin/mysqld(...)[0xf2b3e0]                 /var/log/containers
//! [pod/mysql-0/mysql] /usr/sbin/mysqld(...)[0xf2b3e0]                                     kubectl logs --prefix
//! # 2024-03-04T10:11:12 [4711] #2  0x7f in row_purge_step (thr=0x7f) at a.cc:12            RQG, of tests
//! ```
//!
//! A server's own time has six digits behind the point, or none.

use std::borrow::Cow;

/// Programs whose lines in a system's log are a server's.
const SERVERS: [&str; 4] = ["mysqld", "mariadbd", "mysql", "mariadb"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The lines of a text without what collected them.
pub(crate) fn without_prefixes(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| bare(line).len() < line.len()) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        plain.push_str(bare(line));
        plain.push('\n');
    }
    if !text.ends_with('\n') {
        plain.pop();
    }
    Cow::Owned(plain)
}

/// A line without its prefix.
fn bare(whole: &str) -> &str {
    // A letter quotes it, or a page indents it.
    let line = whole.trim_start_matches([' ', '\t', '>']);
    let pod = line.strip_prefix("[pod/").and_then(|rest| rest.split_once("] ")).map(|(_, rest)| rest);
    let line = pod.unwrap_or(line);
    let of_container = || container(line).and_then(of_runtime);
    of_runtime(line)
        .or_else(of_container)
        .or_else(|| of_system(line))
        .or_else(|| of_tests(line))
        .or(pod)
        .unwrap_or(whole)
}

/// What stands behind the time and the process that the Random Query Generator puts before what it prints: `# 2024-03-04T10:11:12 [4711] `.
fn of_tests(line: &str) -> Option<&str> {
    let (time, rest) = line.strip_prefix('#')?.trim_start_matches(' ').split_once(" [")?;
    let (process, rest) = rest.split_once("] ")?;
    (is_date_and_time(time) && process.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
}

/// What stands behind the name that docker-compose puts before a line: `db-1  | `.
pub(crate) fn container(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" | ")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let name = name.trim();
    (!name.is_empty() && name.chars().all(is_name)).then_some(rest)
}

/// What stands behind the time of a container's runtime, and behind the stream and the mark of a whole or a partial line.
fn of_runtime(line: &str) -> Option<&str> {
    const STREAMS: [&str; 4] = ["stdout F", "stderr F", "stdout P", "stderr P"];
    let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (_, fraction) = time.split_once('.').filter(|(time, _)| is_date_and_time(time))?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let zone = &fraction[digits..];
    let is_zone = zone == "Z" || zone.starts_with(['+', '-']) && zone.len() <= "+00:00".len();
    let stream = STREAMS.iter().find_map(|stream| rest.strip_prefix(stream));
    let is_runtime = is_zone && ((7..=9).contains(&digits) || stream.is_some());
    is_runtime.then(|| stream.map_or(rest, |rest| rest.strip_prefix(' ').unwrap_or(rest)))
}

/// `2024-03-04T10:11:12`
fn is_date_and_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            sign => byte == *sign,
        })
}

/// Where in a line the lines begin that the system's log has of a server, which a page made one of, with words around them or without.
pub(crate) fn several_begin(line: &str) -> Option<Vec<usize>> {
    const SAFE: &str = "mysqld_safe";
    let bytes = line.as_bytes();
    let begins = |at: &usize| bytes[*at].is_ascii_uppercase() && (*at == 0 || bytes[*at - 1] == b' ');
    let is_line = |at: &usize| {
        let rest = &line[*at..];
        MONTHS.iter().any(|month| rest.starts_with(month))
            && program(rest).is_some_and(|(name, _)| name == SAFE || SERVERS.contains(&name))
    };
    let places: Vec<usize> = (0..bytes.len()).filter(begins).filter(is_line).collect();
    places.iter().any(|place| *place > 0).then_some(places)
}

/// What stands behind the time, the host and the name of the server's program: `Mar  4 10:11:12 db1 mysqld[4711]: `.
fn of_system(line: &str) -> Option<&str> {
    program(line).filter(|(name, _)| SERVERS.contains(name)).map(|(_, rest)| rest)
}

/// The program that a line of the system's log is of, and what it says.
fn program(line: &str) -> Option<(&str, &str)> {
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once(' ')?;
        rest = behind.trim_start_matches(' ');
        Some(word)
    };
    let first = word()?;
    if MONTHS.contains(&first) {
        word().filter(|day| day.len() <= 2 && day.bytes().all(|byte| byte.is_ascii_digit()))?;
        word().filter(|clock| clock.len() == "10:11:12".len() && clock.matches(':').count() == 2)?;
    } else if !first.get(..19).is_some_and(is_date_and_time) {
        return None;
    }
    let _host = word()?;
    let (program, behind) = rest.split_once(':')?;
    let name = program.split('[').next().unwrap_or(program);
    Some((name, behind.strip_prefix(' ').unwrap_or(behind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    const CRASH: &str = "10:11:12 UTC - mysqld got signal 11 ;\n\
                         Attempting backtrace. You can use the following information to find out\n\
                         stack_bottom = 7f2c8c0b6e40 thread_stack 0x40000\n\
                         /usr/sbin/mysqld(my_print_stacktrace+0x3b)[0xf1dabb]\n\
                         /usr/sbin/mysqld(handle_fatal_signal+0x4b9)[0x7e7d06]\n\
                         /lib64/libpthread.so.0(+0xf630)[0x7f2cb1a3e630]\n\
                         /usr/sbin/mysqld(_ZN12dict_index_t5clearEP9que_thr_t+0x4c)[0xf6ba1a]\n\
                         /usr/sbin/mysqld(_Z14row_purge_stepP9que_thr_t+0x310)[0xf2b3e0]\n\n\
                         Trying to get some variables.\n";

    #[test]
    fn a_crash_names_its_functions_whatever_collected_its_lines() {
        for before in [
            "",
            "Mar 04 10:11:12 db1 mysqld[4711]: ",
            "Mar  4 10:11:12 db1 mariadbd[4711]: ",
            "2024-03-04T10:11:12.123456+00:00 db1 mysqld[4711]: ",
            "2024-03-04T10:11:12.123456789Z ",
            "2024-03-04T10:11:12.1234567Z ",
            "2024-03-04T10:11:12.123456789Z stderr F ",
            "[pod/mysql-0/mysql] ",
            "db-1  | 2024-03-04T10:11:12.123456789Z ",
            "# 2024-03-04T10:11:12 [4711] ",
            "    Mar  4 10:11:12 db1 mysqld[4711]: ",
            "> [pod/mysql-0/mysql] ",
        ] {
            let text: String = CRASH.lines().map(|line| format!("{before}{line}\n")).collect();
            let says: Vec<String> = recognise("x", &text).into_iter().flat_map(|part| part.says).collect();
            let wanted = "the thread that died was in dict_index_t::clear, called by row_purge_step";
            assert!(says.contains(&wanted.to_owned()), "{before}: {says:?}");
        }
    }

    #[test]
    fn lines_of_the_system_s_log_that_became_one_are_lines_again() {
        let text = "It ended halfway: Mar 3 10:11:12 db1 mysqld: 240303 10:11:12 InnoDB: Error: Write to file ./shop/stock.ibd failed at \
                    offset 0 24788. Mar 3 10:11:12 db1 mysqld: InnoDB: Operating system error number 28. Then I stopped it.\n";
        let found = spindoctor_rules::diagnose(&crate::window(&recognise("x", text))).findings;
        assert_eq!(
            found.iter().map(|one| one.cause.as_str()).collect::<Vec<_>>(),
            ["disk-full"],
            "{found:#?}"
        );
        let restarts = "Mar 4 08:47:32 db1 mysqld_safe: mysqld restarted Mar 4 08:47:34 db1 mysqld_safe: Number of processes running now: 0 \
                        Mar 4 08:47:34 db1 mysqld_safe: mysqld restarted Mar 4 08:47:36 db1 mysqld_safe: Number of processes running now: 0\n";
        let says: Vec<String> = recognise("x", restarts).into_iter().flat_map(|part| part.says).collect();
        assert!(says.len() == 1 && says[0].starts_with("mysqld_safe started the server again"), "{says:?}");
        assert!(says[0].contains("2 times"), "{says:?}");
        for one in ["Mar 4 08:47:32 db1 mysqld: a May I ask", "Mar é May 4 08:47:32 db1 sshd: a", ""] {
            assert_eq!(several_begin(one), None, "{one}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_several_begin_panic(line in "(Mar 4 10:11:12 db1 mysqld: |Mar | |:|é|May 3 |a){0,30}") {
            several_begin(&line);
        }
    }

    #[test]
    fn lines_of_a_server_s_own_and_of_other_programs_stay_as_they_are() {
        for text in [
            "2024-03-04T10:11:12.123456Z 0 [Note] ready\n",
            "2024-03-04T10:11:12Z UTC - mysqld got signal 11 ;",
            "Mar 04 10:11:12 db1 kernel: Out of memory: Killed process 4711 (mysqld)\n",
            "Mar 04 10:11:12 db1 sshd[12]: mysqld: no such user\n",
            "[pod/a/b]: x\n",
            "May I ask why this happens?\n",
            "a | b\n",
            "# 2024-03-04T10:11:12 [x] y\n",
            "# Time: 2024-03-04T10:11:12 [7] y\n",
            "",
        ] {
            assert!(matches!(without_prefixes(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
