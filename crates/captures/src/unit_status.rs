//! What `systemctl status` prints of a server's unit that runs: how near it is to the bounds that systemd sets it.
//!
//! ```text
//! ● mysql.service - MySQL Community Server
//!      Active: active (running) since Mon 2024-03-04 09:11:02 UTC; 1 week 1 day ago
//!       Tasks: 4810 (limit: 4915)
//!      Memory: 1.9G (limit: 2.0G)
//! ```

use spindoctor_model::number;

use crate::amounts::bytes;
use crate::kernel_log::is_name_of_server;
use crate::system::{MOST_ROWS, SystemText};

/// Part of a bound from which on it is reached soon. By judgement.
const NEAR: f64 = 0.95;
/// Lines below the unit in which its state stands.
const ABOVE_STATE: usize = 8;

/// True for the line that names a server's unit, above the one that says that it runs.
pub(crate) fn begins(lines: &[&str], at: usize) -> bool {
    let runs = |line: &&str| line.trim_start().starts_with("Active: active (running)");
    is_unit(lines[at]) && lines[at..].iter().take(ABOVE_STATE).any(runs)
}

fn is_unit(line: &str) -> bool {
    line.split_once(".service - ")
        .and_then(|(before, _)| before.rsplit(' ').next())
        .is_some_and(|unit| is_name_of_server(&unit.to_ascii_lowercase()))
}

/// Says which of its bounds it is near.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    if !text.lines().take(MOST_ROWS).any(is_unit) {
        return;
    }
    for line in text.lines().take(MOST_ROWS).map(str::trim_start) {
        if let Some((used, most)) = line.strip_prefix("Tasks: ").and_then(bounded) {
            let (used, most) = (number::whole(used), number::whole(most));
            let sentence = format!(
                "The unit has {used} threads of {most} that systemd allows it (TasksMax): at that bound no thread can be made for a new connection"
            );
            found.add("systemctl", None, sentence);
        }
        if let Some((used, most)) = line.strip_prefix("Memory: ").and_then(bounded) {
            let (used, most) = (number::bytes(used), number::bytes(most));
            let sentence = format!(
                "The unit has {used} of the {most} of memory that systemd allows it (MemoryMax): the kernel takes pages from it that it reads \
                 again, or kills it"
            );
            found.add("systemctl", None, sentence);
        }
    }
}

/// What is used and the bound, where the one is near the other: `4810 (limit: 4915)`, `1.9G (max: 2.0G available: 52.0M)`.
fn bounded(text: &str) -> Option<(f64, f64)> {
    let (used, rest) = text.split_once(" (")?;
    let most = ["limit: ", "max: "].iter().find_map(|name| rest.split_once(name))?.1;
    let most = bytes(most.split([' ', ')', ',']).next()?)?;
    let used = bytes(used.trim())?;
    (most > 0.0 && used >= NEAR * most).then_some((used, most))
}

#[cfg(test)]
mod tests {
    use crate::recognise;

    #[test]
    fn a_unit_that_runs_is_known_and_its_bounds_are_said_where_they_are_near() {
        let status = |unit: &str, tasks: u32, memory: &str| {
            format!(
                "● {unit}.service - A server\n     Loaded: loaded (/lib/systemd/system/{unit}.service; enabled)\n     \
                 Active: active (running) since Mon 2024-03-04 09:11:02 UTC; 1 week ago\n   Main PID: 71 ({unit})\n      \
                 Tasks: {tasks} (limit: 4915)\n     Memory: {memory}\n        CPU: 12h 1min\n"
            )
        };
        let says = |text: &str| -> Vec<String> {
            let parts = recognise("x", text);
            assert!(parts.iter().all(|part| part.kind == crate::Kind::System), "{text}: {parts:?}");
            parts.into_iter().flat_map(|part| part.says).collect()
        };
        assert_eq!(says(&status("mysql", 52, "1.2G")), Vec::<String>::new());
        let threads = says(&status("mariadb", 4_810, "1.2G"));
        assert!(
            threads.len() == 1 && threads[0].starts_with("The unit has 4810 threads of 4915"),
            "{threads:?}"
        );
        for memory in ["1.95G (limit: 2.0G)", "1.95G (max: 2.0G available: 51.2M peak: 2.0G)"] {
            let said = says(&status("mysqld", 52, memory));
            assert!(said.len() == 1 && said[0].starts_with("The unit has 1.95 GiB of the 2 GiB"), "{said:?}");
        }
        assert!(recognise("x", &status("nginx", 4_910, "1.2G")).iter().all(|part| part.says.is_empty()));
    }
}
