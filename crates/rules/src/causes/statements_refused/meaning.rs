//! What the worst of the errors means here: the headline's end, and the reason.

use spindoctor_model::Window;

use super::counted::Failing;
use super::kinds::{Kind, data_error};
use super::writes::read_only;

/// What the error means here, for the headline.
pub(super) fn meaning(window: &Window, worst: &Failing, source: Option<&str>) -> String {
    match (worst.kind, read_only(window), source) {
        (Kind::ReadOnly, Some(variable), Some(source)) => {
            format!("this replica of {source} is read-only ({variable} = ON)")
        }
        (Kind::ReadOnly, Some(variable), None) => format!("the server is read-only ({variable} = ON)"),
        (Kind::ReadOnly, None, _) => "an option or a read-only transaction prevents them".into(),
        (Kind::Full, ..) => format!("no room, or damage ({})", symbol(worst)),
        (Kind::Limit, ..) => format!("a limit is reached ({})", symbol(worst)),
        (Kind::Missing, ..) => format!("what they name is not there ({})", symbol(worst)),
        (Kind::Denied, ..) => "a right is missing".into(),
        (Kind::Time, ..) => "a time limit or a KILL ends them".into(),
        (Kind::Expected | Kind::Other, ..) => match worst.number.and_then(data_error) {
            Some(words) => format!("{words} ({})", symbol(worst)),
            None => symbol(worst).to_owned(),
        },
        (Kind::Unknown, ..) => "this server does not count which errors".into(),
    }
}

/// `ER_DUP_ENTRY` of `error 1062 ER_DUP_ENTRY`, whose number stands before it already.
fn symbol(error: &Failing) -> &str {
    let begin = error.number.map(|number| format!("error {number} "));
    begin.and_then(|begin| error.name.strip_prefix(&begin)).unwrap_or(&error.name)
}

/// Why it hurts here.
pub(super) fn why(worst: &Failing, source: Option<&str>) -> String {
    match (worst.kind, source) {
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
