//! Checks of a program's own that failed, as the C library prints them, and whether a log is of a program that makes backups: where that
//! one crashes no server does.
//!
//! ```text
//! mariadbd: /b/storage/innobase/log/log0recv.cc:3848: bool recv_sys_t::apply_batch(uint32_t): Assertion `!is_inside(first)' failed.
//! 2024-03-04T10:11:12.123456-00:00 1 [Note] [MY-011825] [Xtrabackup] >> log scanned up to (7)
//! [00] 2024-03-04 10:11:12 >> log scanned up to (7)
//! ```

/// A check that failed: where it stands in the source, and what it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnCheck<'l> {
    pub(crate) file: &'l str,
    pub(crate) line: &'l str,
    pub(crate) asked: &'l str,
}

/// The check of a server's that a line of the C library says failed; None for other lines and other programs.
pub(crate) fn of_library(line: &str) -> Option<OwnCheck<'_>> {
    const SERVERS: [&str; 4] = ["mysqld", "mysqld-debug", "mariadbd", "mariadbd-debug"];
    let (before, rest) = line.split_once(": Assertion `")?;
    let (asked, _) = rest.rsplit_once("' failed")?;
    let (program, place) = before.split_once(": ")?;
    let name = program.rsplit(['/', ' ', '`', '\t']).next().unwrap_or(program);
    let mut parts = place.splitn(3, ':');
    let (path, number) = (parts.next()?, parts.next()?);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let file = path.rsplit('/').next().unwrap_or(path);
    (SERVERS.contains(&name) && is_number).then_some(OwnCheck { file, line: number, asked })
}

/// True for what a program that makes backups printed, where nothing of a server stands beside it.
pub(crate) fn is_of_backup(text: &str) -> bool {
    const OF_BACKUP: [&str; 4] =
        ["[Xtrabackup]", "xtrabackup got signal ", "mariabackup got signal ", "mariadb-backup got signal "];
    const BEGINS: [&str; 4] = ["xtrabackup: ", "mariabackup: ", "mariadb-backup: ", "xtrabackup version "];
    const OF_SERVER: [&str; 7] = [
        "ready for connections",
        "starting as process ",
        "mysqld got signal ",
        "mariadbd got signal ",
        "mysqld_safe ",
        "WSREP",
        "[Server]",
    ];
    let is_of_backup = |line: &str| {
        OF_BACKUP.iter().any(|sign| line.contains(sign))
            || BEGINS.iter().any(|begin| line.starts_with(begin))
            || is_of_thread(line)
    };
    text.lines().any(is_of_backup)
        && !text.lines().any(|line| OF_SERVER.iter().any(|sign| line.contains(sign)))
}

/// `[00] 2024-03-04 10:11:12 `: the number of its thread, with which mariabackup begins its lines.
fn is_of_thread(line: &str) -> bool {
    let Some((number, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) else {
        return false;
    };
    let is_number = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number && rest.starts_with("20") && crate::clock::time(rest).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_log::read;
    use crate::recognise;

    const CHECK: &str = "mariadbd: /b/storage/innobase/log/log0recv.cc:3848: bool recv_sys_t::apply_batch(uint32_t): Assertion \
                         `!inside(first)' failed.\n";

    #[test]
    fn a_check_that_the_c_library_prints_is_a_crash_with_its_place() {
        let check = of_library(CHECK.trim_end()).unwrap();
        assert_eq!((check.file, check.line, check.asked), ("log0recv.cc", "3848", "!inside(first)"));
        let signal = "10:11:12 UTC - mysqld got signal 6 ;\n";
        for text in
            [CHECK.to_owned(), format!("{CHECK}{signal}"), CHECK.replace("mariadbd: ", "/opt/bin/mysqld: ")]
        {
            let parts = recognise("error.log", &text);
            let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
            assert_eq!(found.len(), 1, "{text}: {found:#?}");
            let wanted = "a check of its own failed, log0recv.cc line 3848: !inside(first)";
            assert!(found[0].headline.ends_with(wanted), "{text}: {}", found[0].headline);
        }
        for other in [
            CHECK.replace("mariadbd", "postgres"),
            CHECK.replace(":3848:", ":x:"),
            CHECK.replace("' failed", "' holds"),
            "mysqld: a: Assertion `é' failed".to_owned(),
        ] {
            assert_eq!(of_library(&other), None, "{other}");
        }
    }

    #[test]
    fn a_backup_s_program_that_crashes_is_no_server_that_does() {
        let backup = "2024-03-04T10:11:12.123456-00:00 2 [Note] [MY-011825] [Xtrabackup] Copying ./ibdata1 to /backup/ibdata1\n";
        let thread = "[00] 2024-03-04 10:11:12 >> log scanned up to (7)\n";
        let check = "InnoDB: Assertion failure: read_filt.cc:7:offset == 0\n";
        let trace = "Attempting backtrace. You can use the following information to find out\n";
        for text in [
            format!("{backup}{check}"),
            format!("{thread}{check}{trace}"),
            format!("{backup}10:11:12 UTC - xtrabackup got signal 11 ;\n{trace}"),
            format!("{thread}240304 10:11:12 [ERROR] /usr/bin/mariabackup got signal 6 ;\n"),
        ] {
            let log = read(&text);
            assert_eq!(log.troubles, [], "{text}");
            assert!(log.says[0].starts_with("the program that makes the backup crashed"), "{:?}", log.says);
        }
        // The log of a node that gives another one its state has lines of both.
        let server =
            "2024-03-04T10:11:10.1Z 0 [System] [MY-010931] [Server] mysqld: ready for connections.\n";
        for beside in [server, "10:11:12 UTC - mysqld got signal 6 ;\n"] {
            assert_eq!(read(&format!("{beside}{backup}{check}")).troubles.len(), 1, "{beside}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "(mysqld|: |Assertion `|' failed|:12:|/|\\[00\\] |20|é|a){0,30}") {
            of_library(&line);
            is_of_backup(&line);
        }
    }
}
