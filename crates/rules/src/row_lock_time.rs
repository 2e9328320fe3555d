//! How long sessions wait for row locks, by InnoDB's own count: a list once a second sees few of many short waits.

use spindoctor_model::Window;

/// Waits that must have begun within the window before their time counts: one that began long before adds all of it at its end.
const WAITS: f64 = 10.0;

/// Sessions that wait for a row lock on average, by the time that InnoDB counts when a wait ends, milliseconds
/// (storage/innobase/lock/lock0wait.cc). None where it is not read or too few waits began.
pub(crate) fn counted(window: &Window) -> Option<f64> {
    let begun = window.status_growth("Innodb_row_lock_waits")?;
    let waited_ms = window.status_per_s("Innodb_row_lock_time")?;
    (begun >= WAITS).then_some(waited_ms / 1000.0)
}
