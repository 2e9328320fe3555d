//! Tasks that the kernel found waiting in it for minutes, and CPUs that it found stuck in one task: which, for how long and since when
//! (kernel/hung_task.c, kernel/watchdog.c).
//!
//! ```text
//! [Tue Mar 12 03:10:11 2024] INFO: task mysqld:4711 blocked for more than 120 seconds.
//! [Tue Mar 12 03:10:11 2024] Call Trace:
//! [Tue Mar 12 03:10:11 2024]  schedule+0x44/0x80
//! [Tue Mar 12 03:10:11 2024]  jbd2_log_wait_commit+0x8a/0xe0 [jbd2]
//! Mar 12 03:10:11 db1 kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [mysqld:4711]
//! ```

use jiff::civil::DateTime;
use spindoctor_model::{LoggedTrouble, TroubleKind, number};

use crate::kernel_log::HUNG_IN_KERNEL;
use crate::{clock, kernel_waits};

/// Tasks and CPUs that are named. By judgement.
const NAMED: usize = 4;
/// Lines below a task that are looked at for its functions: a stack of the kernel is shorter.
const MOST_FRAMES: usize = 60;
/// Characters of a name that are shown: the kernel keeps 15 of a task's, and more of those of its own threads.
const LONGEST_NAME: usize = 40;

/// How a line goes on behind a CPU that is stuck.
const STUCK: &str = " stuck for ";

/// What the lines of one task, or of one CPU, come to.
struct Delay<'t> {
    /// `mysqld:4711`; of a CPU its number, and the task that ran there.
    what: &'t str,
    on_cpu: Option<&'t str>,
    longest_s: u64,
    times: u64,
    /// When the first of them was written, as it stands there.
    since: Option<String>,
    /// What its functions say that it waits for.
    waits_for: Option<String>,
}

/// How long a line says that a task waited or a CPU was stuck, milliseconds; `lower` is the line in lower case.
pub(crate) fn duration_ms(lower: &str) -> Option<u64> {
    let is_of_kernel = lower.contains("info: task ") || lower.contains("lockup - cpu#");
    let behind = [HUNG_IN_KERNEL, STUCK].iter().find_map(|sign| lower.split_once(*sign));
    let seconds = behind.filter(|_| is_of_kernel).and_then(|(_, rest)| leading_number(rest));
    seconds?.checked_mul(1_000)
}

/// The tasks that waited, in a sentence.
pub(crate) fn hung(text: &str) -> Option<String> {
    let delays = hung_tasks(text);
    (!delays.is_empty()).then(|| format!("these waited in the kernel: {}", in_words(&delays)))
}

/// The CPUs that were stuck, in a sentence.
pub(crate) fn stuck(text: &str) -> Option<String> {
    let delays = stuck_cpus(text);
    (!delays.is_empty()).then(|| format!("these CPUs were stuck: {}", in_words(&delays)))
}

/// Says beside a trouble which tasks or CPUs it was.
pub(crate) fn add_detail(troubles: &mut [LoggedTrouble], text: &str) {
    for trouble in troubles {
        let delays = match trouble.kind {
            TroubleKind::HungInKernel => hung_tasks(text),
            TroubleKind::CpuStuck => stuck_cpus(text),
            _ => continue,
        };
        trouble.detail = in_words(&delays);
    }
}

/// Those with the longest delays, each in a few words.
fn in_words(delays: &[Delay<'_>]) -> String {
    let mut longest: Vec<&Delay<'_>> = delays.iter().collect();
    longest.sort_by_key(|delay| std::cmp::Reverse(delay.longest_s));
    let shown: Vec<String> = longest.iter().take(NAMED).map(|delay| words(delay)).collect();
    let more = match delays.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; {}", number::counted(more as u64, "other", "others")),
    };
    format!("{}{more}", shown.join("; "))
}

fn words(delay: &Delay<'_>) -> String {
    let Delay { what, on_cpu, longest_s, times, since, waits_for } = delay;
    let who: String = what.chars().take(LONGEST_NAME).collect();
    let who = match on_cpu {
        Some(cpu) => format!("CPU {cpu} in {who} for {longest_s} s"),
        None => format!("{who} for {longest_s} s or more"),
    };
    let (times, first) = match *times {
        1 => (String::new(), "at"),
        many => (format!(", {many} times"), "first at"),
    };
    let since = since.as_ref().map_or_else(String::new, |since| format!(", {first} {since}"));
    let waits_for = waits_for.as_ref().map_or_else(String::new, |what| format!(" ({what})"));
    format!("{who}{times}{since}{waits_for}")
}

/// The tasks of which a text says that they waited, in the order in which it names them first.
fn hung_tasks(text: &str) -> Vec<Delay<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all: Vec<Delay<'_>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let task = line.split_once("INFO: task ").and_then(|(_, rest)| rest.split_once(HUNG_IN_KERNEL));
        let Some((what, rest)) = task else { continue };
        let Some(seconds) = leading_number(rest) else { continue };
        if let Some(delay) = all.iter_mut().find(|delay| delay.what == what) {
            delay.add(seconds);
            continue;
        }
        all.push(Delay {
            what,
            on_cpu: None,
            longest_s: seconds,
            times: 1,
            since: when(line),
            waits_for: waits_for(&lines[at + 1..]),
        });
    }
    all
}

/// The CPUs of which a text says that they were stuck, likewise.
fn stuck_cpus(text: &str) -> Vec<Delay<'_>> {
    let mut all: Vec<Delay<'_>> = Vec::new();
    for line in text.lines() {
        let Some((cpu, rest)) =
            line.split_once("soft lockup - CPU#").and_then(|(_, rest)| rest.split_once(STUCK))
        else {
            continue;
        };
        let Some(seconds) = leading_number(rest) else { continue };
        let what = rest.split_once('[').and_then(|(_, task)| task.split_once(']'));
        let what = what.map_or("a task", |(task, _)| task);
        if let Some(delay) = all.iter_mut().find(|delay| delay.on_cpu == Some(cpu)) {
            delay.add(seconds);
            continue;
        }
        let since = when(line);
        all.push(Delay { what, on_cpu: Some(cpu), longest_s: seconds, times: 1, since, waits_for: None });
    }
    all
}

impl Delay<'_> {
    fn add(&mut self, seconds: u64) {
        self.times += 1;
        self.longest_s = self.longest_s.max(seconds);
    }
}

/// The number with which a text begins.
fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

/// When a line of the kernel's log was written, as it stands there: a time of another zone stays what it is.
fn when(line: &str) -> Option<String> {
    /// `Mar 12 03:10:11`
    const SYSLOG: usize = 15;
    let line = line.trim_start();
    let in_brackets = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((inside, _)) = in_brackets {
        let inside = inside.trim();
        let since_start = inside.parse::<f64>().ok().filter(|_| !inside.starts_with('+'));
        return match since_start {
            Some(seconds) => Some(format!("{seconds:.0} s after the host's start")),
            None => inside.contains(':').then(|| inside.to_owned()),
        };
    }
    if let Some(time) = clock::time(line) {
        return Some(time.strftime("%Y-%m-%d %H:%M:%S").to_string());
    }
    let of_syslog = line.get(..SYSLOG)?;
    DateTime::strptime("%Y %b %e %H:%M:%S", format!("2000 {of_syslog}")).ok()?;
    Some(of_syslog.to_owned())
}

/// What a task waits for, by the functions of the kernel below its line: `io_schedule: a disk`.
fn waits_for(below: &[&str]) -> Option<String> {
    let stack = || {
        let of_task = below.iter().take(MOST_FRAMES).take_while(|line| !line.contains("INFO: task "));
        of_task.filter_map(|line| frame(line))
    };
    // Where the kernel is not sure of any frame it marks all of them.
    let sure: Vec<&str> = stack().filter(|(_, is_sure)| *is_sure).map(|(name, _)| name).collect();
    let frames = if sure.is_empty() { stack().map(|(name, _)| name).collect() } else { sure };
    let (function, meaning) = kernel_waits::clearest(&frames)?;
    Some(format!("{function}: {meaning}"))
}

/// The function of a frame, and whether the kernel is sure of it: `[<ffffffff8de182c0>] ? bit_wait+0x50/0x50`, `schedule+0x44/0x80 [xfs]`.
fn frame(line: &str) -> Option<(&str, bool)> {
    let mut before = "";
    for word in line.split_whitespace() {
        if let Some((name, offset)) = word.split_once("+0x")
            && offset.contains("/0x")
        {
            return Some((name, before != "?"));
        }
        before = word;
    }
    None
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Severity;

    use super::*;

    /// The causes, severities and headlines of the findings of a text.
    fn found(text: &str) -> Vec<(String, Severity, String)> {
        let parts = crate::recognise("dmesg", text);
        let all = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
        all.into_iter().map(|finding| (finding.cause, finding.severity, finding.headline)).collect()
    }

    #[test]
    fn a_task_of_the_server_that_waits_is_named_with_how_long_and_for_what() {
        let text = "[Sa Mar 12 03:10:11 2024] INFO: task mysqld:4711 blocked for more than 120 seconds.\n\
                    [Sa Mar 12 03:10:11 2024] Call Trace:\n\
                    [Sa Mar 12 03:10:11 2024]  [<ffffffff8de17af2>] ? rwsem_down_read_failed+0x32/0x80\n\
                    [Sa Mar 12 03:10:11 2024]  [<ffffffff8de17af2>] schedule+0x32/0x80\n\
                    [Sa Mar 12 03:10:11 2024]  [<ffffffff8de17af3>] io_schedule+0x18/0x20\n\
                    [Sa Mar 12 03:10:11 2024]  [<ffffffff8de17af4>] jbd2_log_wait_commit+0x8a/0xe0 [jbd2]\n\
                    [Sa Mar 12 03:12:12 2024] INFO: task mysqld:4711 blocked for more than 241 seconds.\n";
        let all = found(text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!((all[0].0.as_str(), all[0].1), ("storage-stalled", Severity::Warning));
        assert_eq!(all[0].2, "A thread of mysqld stood in the kernel for 4 min 1 s or more");
        let wanted = "mysqld:4711 for 241 s or more, 2 times, first at Sa Mar 12 03:10:11 2024 (jbd2_log_wait_commit: a sync waits for the \
                      file system's journal)";
        assert_eq!(hung(text), Some(format!("these waited in the kernel: {wanted}")));
    }

    #[test]
    fn tasks_of_other_programs_are_named_and_are_no_finding() {
        let text = "[ 1322.1] INFO: task manager:26933 blocked for more than 120 seconds.\n[ 1322.2] Call Trace:\n\
                    [ 1322.3]  schedule+0x29/0x70\n[ 1322.4]  io_schedule_timeout+0xad/0x130\n";
        assert_eq!(found(text), []);
        let says: Vec<String> =
            crate::recognise("dmesg", text).into_iter().flat_map(|part| part.says).collect();
        let wanted =
            "manager:26933 for 120 s or more, at 1322 s after the host's start (io_schedule_timeout: a disk)";
        assert!(says.join("; ").contains(wanted), "{says:?}");
    }

    #[test]
    fn a_cpu_that_is_stuck_is_a_finding_with_the_task_and_since_when() {
        let line = |clock: &str, cpu: u32, seconds: u32| {
            format!(
                "Mar 12 {clock} db1 kernel: [9123.1] watchdog: BUG: soft lockup - CPU#{cpu} stuck for {seconds}s! [mysqld:4711]\n"
            )
        };
        let text = [line("03:10:11", 3, 23), line("03:10:39", 3, 26), line("03:10:40", 5, 22)].concat();
        let all = found(&text);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!((all[0].0.as_str(), all[0].1), ("server-stopped", Severity::Warning));
        assert_eq!(all[0].2, "A CPU was stuck in the kernel for 26 s (mysqld), 3 times");
        let wanted = "these CPUs were stuck: CPU 3 in mysqld:4711 for 26 s, 2 times, first at Mar 12 03:10:11; CPU 5 in mysqld:4711 for 22 s, at \
                      Mar 12 03:10:40";
        assert_eq!(stuck(&text).as_deref(), Some(wanted));
    }

    #[test]
    fn of_many_the_longest_are_named_and_the_rest_counted() {
        let lines = (0..6).map(|cpu| format!("soft lockup - CPU#{cpu} stuck for {}s! [java:7]\n", 30 - cpu));
        let said = stuck(&lines.collect::<String>()).unwrap_or_default();
        assert!(said.contains("CPU 0 in java:7 for 30 s; CPU 1 ") && said.ends_with("; 2 others"), "{said}");
    }

    #[test]
    fn other_lines_have_no_delay() {
        for line in ["it was stuck for 5 hours", "blocked for more than 3 reasons", "info: task force formed"]
        {
            assert_eq!(duration_ms(line), None, "{line}");
        }
        assert_eq!(duration_ms("info: task a:1 blocked for more than 122 seconds."), Some(122_000));
        assert_eq!(duration_ms("bug: soft lockup - cpu#9 stuck for 23s! [a:1]"), Some(23_000));
    }
}
