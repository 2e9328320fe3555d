//! How long tasks wait for memory, disks and CPUs, by the kernel's pressure stall information, and what a control group's limit did.
//!
//! ```text
//! # cat /proc/pressure/memory
//! some avg10=41.22 avg60=38.10 avg300=22.91 total=81234123
//! # cat /sys/fs/cgroup/system.slice/mysql.service/memory.events
//! oom_kill 3
//! ```

use spindoctor_model::TroubleKind;

use crate::amounts::amount;
use crate::kernel_log::names_server;
use crate::system::{MOST_ROWS, SystemText};

/// Some task waits so much of the time: users notice, percent. By judgement.
const WAITS_PERCENT: f64 = 10.0;

/// What files are about, by how they are called in `/proc/pressure` and in control groups.
const FILES: [(&str, &str, &str); 3] = [
    ("pressure/memory", "memory.pressure", "memory"),
    ("pressure/io", "io.pressure", "a disk"),
    ("pressure/cpu", "cpu.pressure", "a CPU"),
];

/// True for a line that names a file of the kernel's pressure information: a prompt, or what stands above a file's lines.
pub(crate) fn is_name(line: &str) -> bool {
    FILES.iter().any(|(file, of_group, _)| line.contains(file) || line.contains(of_group))
}

/// True for a line of such a file.
pub(crate) fn is_line(line: &str) -> bool {
    some_percent(line).is_some()
}

/// Says what is waited for, and how often the kernel killed at the limit.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let mut waited_for = None;
    let mut is_of_server = false;
    for line in text.lines().take(MOST_ROWS) {
        let about = FILES.iter().find(|(file, of_group, _)| line.contains(file) || line.contains(of_group));
        waited_for = about.map(|(_, _, what)| *what).or(waited_for);
        if line.contains("memory.events") {
            is_of_server = names_server(&line.to_ascii_lowercase());
        }
        if let Some(percent) = some_percent(line).filter(|percent| *percent >= WAITS_PERCENT) {
            let of = waited_for.map_or_else(String::new, |what| format!(" for {what}"));
            let sentence = format!("Some task waits{of} {percent:.0} % of the time (PSI, of the last 10 s)");
            found.add("PSI", None, sentence);
        }
        let kills = line.trim().strip_prefix("oom_kill ").and_then(|kills| amount(kills.trim()));
        if let Some(kills) = kills.filter(|kills| *kills > 0.0) {
            // The rule knows by these words whose limit it was.
            let sentence = format!(
                "The kernel killed processes of this memory cgroup at its limit, {kills:.0} times since it was made"
            );
            found.add("memory.events", is_of_server.then_some(TroubleKind::KilledForMemory), sentence);
        }
    }
}

/// The part of the last ten seconds in which some task waited, percent.
fn some_percent(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("some avg10=")?;
    amount(rest.split_whitespace().next()?)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::TroubleKind;

    use crate::system::read;

    #[test]
    fn what_tasks_wait_for_and_kills_at_a_limit_are_said() {
        let text = |kills: u32, unit: &str| {
            format!(
                "# cat /proc/pressure/memory\nsome avg10=41.22 avg60=38.10 avg300=22.91 total=81234123\n\
                 full avg10=30.12 avg60=27.77 avg300=15.01 total=51234123\n# cat /proc/pressure/io\n\
                 some avg10=3.10 avg60=2.10 avg300=1.91 total=81234\n\
                 # cat /sys/fs/cgroup/system.slice/{unit}.service/memory.events\nlow 0\nhigh 812\nmax 41\noom 3\noom_kill {kills}\n"
            )
        };
        let waits = "Some task waits for memory 41 % of the time (PSI, of the last 10 s)";
        let killed =
            "The kernel killed processes of this memory cgroup at its limit, 3 times since it was made";
        let found = read(&text(3, "mysql"));
        assert_eq!(found.says, [waits, killed]);
        assert_eq!(found.troubles[0].kind, TroubleKind::KilledForMemory);
        assert!(read(&text(3, "php")).troubles.is_empty());
        assert_eq!(read(&text(0, "mysql")).says, [waits]);
        let parts = crate::recognise("a.txt", &text(3, "mysql"));
        let findings = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        assert_eq!(
            findings[0].headline,
            "The kernel killed the server: its control group had no memory left"
        );
    }
}
