//! What the worst of the errors means here: the headline's end, and the reason.

use spindoctor_model::Window;
use spindoctor_model::number::bytes;

use super::counted::Failing;
use super::kinds::Kind;
use super::known;
use super::writes::{force_recovery, read_only};
use crate::polling::Poll;
use crate::{open_files, temporary_room};

/// What the error means here, for the headline.
pub(super) fn meaning(window: &Window, worst: &Failing, source: Option<&str>) -> String {
    let by_recovery = force_recovery(window).filter(|_| is_by_innodb(worst));
    match (worst.kind, read_only(window), source) {
        (Kind::ReadOnly, ..) if let Some(level) = by_recovery => {
            format!("innodb_force_recovery = {level:.0} refuses writes")
        }
        (Kind::ReadOnly, Some(variable), Some(source)) => {
            format!("this replica of {source} is read-only ({variable} = ON)")
        }
        (Kind::ReadOnly, Some(variable), None) => format!("the server is read-only ({variable} = ON)"),
        (Kind::NoTemporaryRoom, ..) => format!(
            "temporary files find no room, {} free in tmpdir",
            bytes(temporary_room::little(window).unwrap_or(0) as f64)
        ),
        (Kind::NoFiles, ..) => match open_files::at_the_limit(window) {
            Some(files) => format!("the server is at its limit of open files, {}", open_files::said(files)),
            None => "the server may open no more files".into(),
        },
        (Kind::Time, ..) if worst.number == Some(MAX_EXECUTION_TIME) => "max_execution_time ends them".into(),
        _ if let Some(words) = worst.number.and_then(known::says) => format!("{words} ({})", symbol(worst)),
        (Kind::ReadOnly, None, _) => "an option or a read-only transaction prevents them".into(),
        (Kind::Full, ..) => format!("no room, or damage ({})", symbol(worst)),
        (Kind::Limit, ..) => format!("a limit is reached ({})", symbol(worst)),
        (Kind::Missing, ..) => format!("what they name is not there ({})", symbol(worst)),
        (Kind::Denied, ..) => "a right is missing".into(),
        (Kind::Time, ..) => "a time limit or a KILL ends them".into(),
        (Kind::Expected | Kind::Other, ..) => symbol(worst).to_owned(),
        (Kind::Unknown, ..) => "this server does not count which errors".into(),
    }
}

/// True for InnoDB's own refusal (ER_READ_ONLY_MODE), which no read_only makes.
pub(super) fn is_by_innodb(error: &Failing) -> bool {
    error.number == Some(1836)
}

/// The number of a SELECT that reached max_execution_time; a KILL has another (1317).
pub(super) const MAX_EXECUTION_TIME: u32 = 3024;

/// `ER_DUP_ENTRY` of `error 1062 ER_DUP_ENTRY`, whose number stands before it already.
fn symbol(error: &Failing) -> &str {
    let begin = error.number.map(|number| format!("error {number} "));
    begin.and_then(|begin| error.name.strip_prefix(&begin)).unwrap_or(&error.name)
}

/// Why it hurts here.
pub(super) fn why(
    window: &Window,
    worst: &Failing,
    source: Option<&str>,
    insert: Option<&str>,
    polls: Option<&Poll<'_>>,
) -> String {
    if let Some(polls) = polls {
        return polls.why();
    }
    if let (true, Some(table)) = (worst.kind == Kind::Expected, insert) {
        return format!(
            "The statement that inserts into {table} fails every time, and no UPDATE of that table follows: no row gets in. With error \
             1062 the AUTO_INCREMENT of its key may be at the end of its type; the next number is then the last one again."
        );
    }
    match (worst.kind, source) {
        (Kind::ReadOnly, _) if is_by_innodb(worst) && force_recovery(window).is_some() => {
            "The server was started to save its data from damage: InnoDB takes no writes. It refuses each at once, so that nobody waits and \
             no list shows it."
        }
        (Kind::NoTemporaryRoom, _) => {
            "A sort, GROUP BY or join that needs more than its buffer writes a file into tmpdir. It ends with error 3 (No space left on \
             device), which the server counts in no list by number; its file is gone before somebody looks."
        }
        (Kind::NoFiles, _) => {
            "Tables that are not open cannot be opened (error 24, Too many open files). Each InnoDB table is at least one open file, a \
             MyISAM table one and one more for each session that has it open, and each connection is one."
        }
        (Kind::ReadOnly, Some(_)) => {
            "Clients send writes to a server that takes none but those of its source. It refuses each at once, so that nobody waits and no \
             list shows it."
        }
        (Kind::ReadOnly, None) => {
            "The server takes no writes of clients, and replicates no other server: it was switched by hand, by a failover, or by a program \
             that protects it. It refuses each write at once, so that nobody waits and no list shows it."
        }
        (Kind::Expected, _) => {
            "Many applications expect such errors, and go on with another statement. At this rate statements are sent for nothing, or a \
             part of the application does not work."
        }
        (Kind::Unknown, _) => {
            "The server counts that statements failed, and not with which error. An application may expect them, as with duplicate keys."
        }
        _ => "Each of these statements ends with an error at once: nobody waits, so that no list shows it, and its client got nothing done.",
    }
    .to_owned()
}
