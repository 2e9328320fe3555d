//! A server that crashed, or that InnoDB ended, by its error log.

use spindoctor_model::{Evidence, Finding, LoggedTrouble, Remedy, TroubleKind, Window, number};

use super::CAUSE;
use super::start::of_newer_pages;
use crate::causes::statements_refused;
use crate::draft::Draft;
use crate::logged;
use crate::rank::{CRITICAL_FROM, WARNING_FROM};

/// Characters of where it crashed that a headline has.
pub(super) const LONGEST_DETAIL: usize = 120;

/// A crash ends every session, and the recovery after it takes as long as the redo log is. It is over where the server serves clients:
/// one with damaged pages crashes again when it reads them, and one that does not start serves nobody.
pub(super) fn found(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::Crashed)?;
    // That of the last crash says where it was.
    let is_detailed = |other: &&LoggedTrouble| other.kind == TroubleKind::Crashed && !other.detail.is_empty();
    let trouble = window.error_log.iter().rfind(is_detailed).unwrap_or(trouble);
    let number = |rest: &str| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().to_owned();
    let signal = trouble.line.split_once("got signal ").map(|(_, rest)| number(rest));
    let signal = signal.filter(|signal| !signal.is_empty());
    let signal = signal.map_or_else(String::new, |signal| format!(" (signal {signal})"));
    let often = number::counted(times, "time", "times");
    let damage = logged::at_the_end(window, TroubleKind::PageDamaged);
    let newer = logged::at_the_end(window, TroubleKind::PagesNewer);
    let beside = match (damage, newer) {
        (Some(_), _) => ", with damaged pages in its data files",
        (None, Some(_)) => ", with pages in its data files that are newer than its redo log",
        (None, None) => "",
    };
    let detail = match trouble.detail.as_str() {
        "" => String::new(),
        detail => format!(": {}", detail.chars().take(LONGEST_DETAIL).collect::<String>()),
    };
    let does_not_start = logged::at_the_end(window, TroubleKind::NotStarted).is_some();
    let ends = if does_not_start { ", and does not start" } else { "" };
    let refused = trouble.detail.strip_prefix("it ended itself because the system refused ");
    let (begins, detail) = match refused {
        Some(what) => (format!("The server ended itself because the system refused {what}"), String::new()),
        None => (format!("The server crashed{signal}"), detail),
    };
    let headline = match times {
        0 | 1 => format!("{begins}{beside}{ends}{detail}"),
        _ => format!("{begins}, {often} in this log{beside}{ends}{detail}"),
    };
    let (why, look) = match refused {
        Some(_) => (REFUSED, look_at_the_file()),
        None => (CRASHED, look_at_the_crash()),
    };
    let score = if damage.is_some() || does_not_start { CRITICAL_FROM } else { WARNING_FROM };
    let draft = Draft::new(&CAUSE, score, headline)
        .why(why)
        .evidence_all(logged::evidence(trouble, times).into_iter())
        .evidence_if(
            damage.map(|(damage, _)| Evidence::new("a damaged page", damage.line.clone(), "", "error log")),
        )
        .evidence_if(
            newer.map(|(page, _)| Evidence::new("a page that is newer", page.line.clone(), "", "error log")),
        )
        .remedies(damage.into_iter().flat_map(|_| statements_refused::of_damage()))
        .remedy_if(newer.map(|_| of_newer_pages()))
        .explains(&[statements_refused::CAUSE.name])
        .remedy(look);
    Some(draft.finding())
}

/// What a crash means, and a server that InnoDB ended.
const CRASHED: &str = "Every connection was lost, and the server had to recover. Load does not do that: it is a defect of the program, of its \
                       data or of the hardware, or a server that ended itself because it waited for a latch for too long.";
const REFUSED: &str = "Every connection was lost. InnoDB ends the server where the system refuses it what it cannot do without: to open, read, \
                       write or enlarge a file. A full disk, a limit, a right, a share or a failing disk look like this.";

/// By what a known defect is found.
fn look_at_the_crash() -> Remedy {
    Remedy {
        statement: "Look in the log above that line for a failed assertion or a semaphore wait, and below it for the functions and \
                    the statement; search the version's bugs for that function"
            .into(),
        why: "The function that it died in, with the version, is what a known defect is found by.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

/// Which file it was, and what the system said of it.
fn look_at_the_file() -> Remedy {
    Remedy {
        statement: "Look in the log in that line and above it for the operation, the file and the error of the system (perror NUMBER names it); \
                    then df -h, df -i and ls -l of that file's folder, and dmesg for errors of its disk"
            .into(),
        why: "The server can go on when the system lets it use that file.".into(),
        dynamic: true,
        risk: "Looking is safe.".into(),
        ..Remedy::default()
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;

    #[test]
    fn a_server_that_the_system_refused_a_file_operation_ended_itself() {
        let refused = LoggedTrouble {
            kind: TroubleKind::Crashed,
            times: 1,
            line: "[FATAL] InnoDB: File ./a.ibd: 'open' returned OS error 71. Cannot continue operation"
                .into(),
            detail: "it ended itself because the system refused it an operation on a file".into(),
            ..LoggedTrouble::default()
        };
        let ended = LoggedTrouble { kind: TroubleKind::NotStarted, times: 1, ..LoggedTrouble::default() };
        let of = |error_log: Vec<LoggedTrouble>| found(&Window { error_log, ..Window::default() }).unwrap();
        let alone = of(vec![refused.clone()]);
        let headline = "The server ended itself because the system refused it an operation on a file";
        assert_eq!((alone.headline.as_str(), alone.severity), (headline, Severity::Warning));
        assert!(alone.remedies[0].statement.contains("df -h"), "{:?}", alone.remedies);
        assert_eq!(of(vec![refused, ended]).headline, format!("{headline}, and does not start"));
    }
}
