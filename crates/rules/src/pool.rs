//! Remedies that set the size of InnoDB's buffer pool, as this server takes them: where the size is not dynamic, in its option file; while
//! the pool is being resized, none.

use spindoctor_model::{Finding, Remedy, ServerVersion, Window};

use crate::below::Below;
use crate::causes::{buffer_pool_latch_contention, free_page_wait};

const SIZE: &str = "innodb_buffer_pool_size";

/// Writes the remedies of findings as the window's server takes them.
pub(crate) fn adapt(window: &Window, findings: &mut [Finding]) {
    if let Some(state) = resizing(window) {
        findings.iter_mut().for_each(|finding| until_it_is_resized(finding, &state));
    }
    if window.server.version.is_some_and(needs_restart) {
        findings.iter_mut().flat_map(|finding| &mut finding.remedies).for_each(in_option_file);
    }
}

/// True where the pool's size is read at the start alone (MySQL 5.7.5 release notes; MDEV-9236: MariaDB 10.2.2).
fn needs_restart(version: ServerVersion) -> bool {
    !version.mysql_at_least(5, 7, 5) && !version.mariadb_at_least(10, 2, 2)
}

/// What is said of a resize of the pool that goes on at the end of the window; None where none does.
fn resizing(window: &Window) -> Option<String> {
    /// What `Innodb_buffer_pool_resize_status` says meanwhile, in lower case (buf0buf.cc, `buf_resize_status`). When it is over, however it
    /// ended, the last text stays.
    const STEPS: [&str; 7] = [
        "requested to resize",
        "resizing buffer pool from",
        "disabling adaptive hash",
        "withdrawing blocks",
        "latching whole of buffer pool",
        "resizing with chunks",
        "resizing also other",
    ];
    /// The first and the last step of `Innodb_buffer_pool_resize_status_code` in which it goes on: 0 is done, and 7 failed.
    const CODES: std::ops::RangeInclusive<f64> = 1.0..=6.0;
    const FUNCTIONS: &[&str] =
        &["buf_pool_resize", "buf_pool_withdraw_blocks", "buf_pool_t::resize", "buf_pool_t::withdraw_blocks"];
    let status = window.latest(|sample| &sample.server.status);
    let said = status.and_then(|status| status.text("Innodb_buffer_pool_resize_status")).unwrap_or_default();
    let code = status.and_then(|status| status.number("Innodb_buffer_pool_resize_status_code"));
    let lower = said.to_ascii_lowercase();
    let is_step = || !lower.starts_with("completed") && STEPS.iter().any(|step| lower.contains(step));
    if code.map_or_else(is_step, |code| CODES.contains(&code)) {
        let said = said.trim_end_matches('.');
        return Some(if said.is_empty() { String::new() } else { format!(" ({said})") });
    }
    let profile = window.profile.value()?;
    let below = Below::new(profile, FUNCTIONS);
    let is_last = |at: u32| at as usize + 1 == profile.snapshots.len();
    let goes_on = profile.observations.iter().any(|one| is_last(one.snapshot) && below.has(one));
    goes_on.then(String::new)
}

/// Instead of remedies that set the pool's size or its instances: to wait. Sessions that wait for the pool meanwhile wait for that.
fn until_it_is_resized(finding: &mut Finding, state: &str) {
    let names_pool = |remedy: &Remedy| {
        [SIZE, "innodb_buffer_pool_instances"].iter().any(|name| remedy.statement.contains(name))
    };
    // What only shows the size may be looked at meanwhile.
    let shows = |remedy: &Remedy| ["SHOW ", "SELECT "].iter().any(|verb| remedy.statement.starts_with(verb));
    let Some(at) = finding.remedies.iter().position(names_pool) else { return };
    finding.remedies.retain(|remedy| shows(remedy) || !names_pool(remedy));
    let wait = Remedy {
        statement:
            "Wait until the buffer pool is resized: SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize%'"
                .into(),
        why: format!(
            "The buffer pool is being resized{state}. InnoDB takes the latches of the whole pool for it and moves pages; another change of \
             its size is refused, or waits for this one."
        ),
        dynamic: true,
        ..Remedy::default()
    };
    let waits_for_it = [buffer_pool_latch_contention::CAUSE.name, free_page_wait::CAUSE.name]
        .contains(&finding.cause.as_str());
    if waits_for_it {
        finding.headline.push_str(", while the buffer pool is being resized");
    }
    finding.remedies.insert(if waits_for_it { 0 } else { at }, wait);
}

/// The same remedy where the size is no dynamic variable.
fn in_option_file(remedy: &mut Remedy) {
    let begins = |text: &str| ["SET GLOBAL ", "Raise ", "Lower "].iter().any(|verb| text.starts_with(verb));
    let Some(statement) = with_restart(&remedy.statement) else { return };
    if begins(&remedy.statement) {
        remedy.dynamic = false;
        remedy.risk = format!("{} The pool is cold after the restart.", remedy.risk).trim_start().to_owned();
    }
    remedy.statement = statement;
    if let Some(undo) = with_restart(&remedy.undo) {
        remedy.undo = undo;
    }
}

/// A text that changes the size, with the option file and a restart; None where it changes none.
fn with_restart(text: &str) -> Option<String> {
    const IN_FILE: &str = " in the option file";
    if text.contains(IN_FILE) {
        return None;
    }
    let set = format!("SET GLOBAL {SIZE}");
    if let Some((before, after)) = text.split_once(&format!("{set} = ")) {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let value = after.strip_suffix(rest)?;
        return Some(format!("{before}{SIZE} = {value}{IN_FILE}, and a restart{rest}"));
    }
    let set = text.replace(&set, &format!("set {SIZE}{IN_FILE}, with a restart,"));
    let written = ["Raise", "raise", "Lower", "lower"].iter().fold(set, |text, verb| {
        text.replace(&format!("{verb} {SIZE}"), &format!("{verb} {SIZE}{IN_FILE}, with a restart"))
    });
    (written != text).then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;
    use crate::{CAUSES, diagnose};

    fn found(cause: &str, change: impl Fn(&mut Window)) -> Finding {
        let examples = CAUSES.iter().find(|one| one.name == cause).map(|one| &one.examples).unwrap();
        let mut window = (examples.fires)();
        change(&mut window);
        let mut findings = diagnose(&window).findings.into_iter();
        findings.find(|one| one.cause == cause).unwrap_or_else(|| panic!("{cause}"))
    }

    fn texts(finding: &Finding) -> String {
        let both = |remedy: &Remedy| format!("{} / {}\n", remedy.statement, remedy.undo);
        finding.remedies.iter().map(both).collect()
    }

    /// As the findings of a window are written for a server of that version.
    fn written_for(version: &str, cause: &str) -> Finding {
        let mut findings = vec![found(cause, |_| ())];
        let mut window = Build::busy("8.0.36").window();
        window.server.version = ServerVersion::parse(version, "");
        adapt(&window, &mut findings);
        findings.remove(0)
    }

    #[test]
    fn a_server_that_reads_the_pools_size_at_its_start_is_not_asked_to_set_it() {
        for cause in [
            "buffer-pool-latch-contention",
            "free-page-wait",
            "log-cache-pressure",
            "memory-pressure",
            "read-io-bound",
            "swapping",
        ] {
            for version in ["5.5.62", "5.6.51", "5.7.4", "10.1.48-MariaDB"] {
                let texts = texts(&written_for(version, cause));
                assert!(!texts.contains("SET GLOBAL innodb_buffer_pool_size"), "{version}: {texts}");
            }
            for version in ["5.7.44", "8.0.36", "10.2.44-MariaDB"] {
                assert_eq!(texts(&written_for(version, cause)), texts(&found(cause, |_| ())), "{version}");
            }
        }
        let finding = written_for("5.6.51", "log-cache-pressure");
        let pool = finding.remedies.iter().find(|one| one.statement.starts_with(SIZE)).unwrap();
        assert_eq!(pool.statement, "innodb_buffer_pool_size = 48318382080 in the option file, and a restart");
        assert_eq!(pool.undo, "innodb_buffer_pool_size = 42949672960 in the option file, and a restart");
        assert!(!pool.dynamic && pool.risk.ends_with("The pool is cold after the restart."), "{}", pool.risk);
    }

    #[test]
    fn words_that_name_the_variable_name_the_option_file() {
        let written = |text: &str| with_restart(text).unwrap_or_default();
        assert_eq!(
            written("Raise innodb_buffer_pool_size, where the host has memory left"),
            "Raise innodb_buffer_pool_size in the option file, with a restart, where the host has memory left"
        );
        assert_eq!(
            written("SET GLOBAL innodb_buffer_pool_size = 20, where the host has that memory left"),
            "innodb_buffer_pool_size = 20 in the option file, and a restart, where the host has that memory left"
        );
        assert_eq!(
            written("SET GLOBAL innodb_buffer_pool_size to what it was"),
            "set innodb_buffer_pool_size in the option file, with a restart, to what it was"
        );
        assert_eq!(written("Lower innodb_buffer_pool_size in the option file by what is missing"), "");
        assert_eq!(written("SET GLOBAL innodb_io_capacity = 2000"), "");
    }

    fn saying(said: &'static str) -> impl Fn(&mut Window) {
        move |window: &mut Window| {
            for sample in &mut window.samples {
                if let spindoctor_model::Reading::Available { value: status, .. } = &mut sample.server.status
                {
                    status.insert("Innodb_buffer_pool_resize_status", said.to_owned());
                }
            }
        }
    }

    #[test]
    fn what_only_shows_the_size_stays_while_it_is_resized() {
        let remedy = |statement: &str| Remedy { statement: statement.into(), ..Remedy::default() };
        let mut finding = found("free-page-wait", |_| ());
        let shows = "SHOW GLOBAL VARIABLES LIKE 'innodb_io_capacity%'; SHOW GLOBAL VARIABLES LIKE 'innodb_buffer_pool_size'";
        let sets = "SET GLOBAL innodb_buffer_pool_size = 20";
        finding.remedies = vec![remedy(shows), remedy(sets)];
        until_it_is_resized(&mut finding, "");
        let statements: Vec<&str> = finding.remedies.iter().map(|one| one.statement.as_str()).collect();
        assert_eq!(statements.len(), 2, "{statements:?}");
        assert!(statements[0].starts_with("Wait until") && statements[1] == shows, "{statements:?}");
    }

    #[test]
    fn a_pool_that_is_being_resized_gets_no_second_size() {
        let sets_pool = |finding: &Finding| {
            finding.remedies.iter().any(|one| one.statement.contains("innodb_buffer_pool_"))
        };
        for said in ["Withdrawing blocks to be shrunken.", "buffer pool 3 : resizing with chunks 64 to 32."] {
            for cause in ["buffer-pool-latch-contention", "free-page-wait"] {
                let finding = found(cause, saying(said));
                assert!(finding.headline.ends_with("while the buffer pool is being resized"), "{finding:?}");
                assert!(finding.remedies[0].statement.starts_with("Wait until"), "{finding:?}");
                assert!(!sets_pool(&finding), "{finding:?}");
            }
            assert!(!sets_pool(&found("log-cache-pressure", saying(said))));
        }
        for said in [
            "",
            "Completed resizing buffer pool at 200101 10:00:00.",
            "Completed resizing buffer pool from 134217728 to 268435456.",
            "Size did not change (old size = new size = 134217728. Nothing to do.)",
        ] {
            let finding = found("buffer-pool-latch-contention", saying(said));
            assert!(sets_pool(&finding) && !finding.headline.contains("resized"), "{finding:?}");
        }
    }
}
