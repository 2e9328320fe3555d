//! Stacks of the kernel: `/proc/PID/task/TID/stack`, and what it writes into its log of tasks that hang.
//!
//! ```text
//! ==> /proc/4711/task/4712/stack <==
//! [<ffffffff810f2a4c>] futex_wait_queue_me+0xc4/0x120
//! [<0>] do_futex+0x10a/0x4a0
//!
//! [12345.678901] INFO: task mysqld:4713 blocked for more than 120 seconds.
//! [12345.678905] Call Trace:
//! [12345.678909]  __schedule+0x2e3/0x740
//!
//! Mar 12 03:10:11 db1 kernel: [12345.678901] mysqld          D ffff88083fc53440     0  4713   4000 0x00000000
//! Mar 12 03:10:11 db1 kernel: [12345.678905]  [<ffffffff81766f6d>] io_schedule+0x9d/0x130
//! ```

use spindoctor_model::stack::StackSource;

use super::CapturedStacks;
use super::tables::{Place, Tables, Who, is_server};

/// Stacks of the kernel, where a text has any.
pub(super) fn read(text: &str) -> Option<CapturedStacks> {
    let mut tables = Tables::new(StackSource::Procfs);
    let (mut who, mut places) = (Who::default(), Vec::new());
    let (mut threads, mut frames, mut not_understood) = (0, 0, 0);
    let mut seen = std::collections::HashSet::new();
    for line in text.lines().chain([""]) {
        let trimmed = without_time(line.trim());
        if let Some(place) = place(trimmed) {
            frames += 1;
            places.extend(place);
            continue;
        }
        let next = header(trimmed);
        let is_known = trimmed.is_empty()
            || next.is_some()
            || is_dump(trimmed)
            || ["Call Trace", "Not tainted", "Tainted", "<TASK>", "</TASK>"]
                .iter()
                .any(|word| trimmed.contains(word));
        not_understood += usize::from(!is_known);
        if !places.is_empty() {
            if threads == 0 || (who.tid != 0 && !seen.insert(who.tid)) {
                tables.next_snapshot();
                seen = std::collections::HashSet::from([who.tid]);
            }
            threads += 1;
            tables.thread(&who, &places, None);
            places.clear();
            who = Who::default();
        }
        if let Some(next) = next {
            who = next;
        }
    }
    (frames >= 2 && threads > 0).then(|| CapturedStacks {
        form: "kernel stacks",
        profile: tables.finish(),
        threads,
        lines_not_understood: not_understood,
    })
}

/// A line of the kernel's log without its time, and without what the system's log puts before it.
fn without_time(line: &str) -> &str {
    /// What stands before is a time and a host. By judgement.
    const LONGEST: usize = 80;
    const DAYS: [&str; 7] = ["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "];
    let bare = line.split_once("kernel: ").filter(|(before, _)| before.len() <= LONGEST);
    let line = bare.map_or(line, |(_, rest)| rest.trim());
    let is_time = |time: &str| {
        let is_date = DAYS.iter().any(|day| time.starts_with(day)) && time.contains(':');
        is_date || time.contains('.') && time.trim().parse::<f64>().is_ok()
    };
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((time, rest)) if is_time(time) => rest.trim(),
        _ => line,
    }
}

/// The words of a stack as they lie in memory, which older kernels print.
fn is_dump(line: &str) -> bool {
    let is_word = |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    !line.is_empty() && line.split_whitespace().all(is_word)
}

/// The kernel's line about the state of a task (kernel/sched/core.c): `mysqld          D ffff88083fc53440     0  4713   4000 0x00000000`,
/// `task:mysqld          state:D stack:    0 pid: 4713 ppid:  4000 flags:0x00000000`.
fn state(line: &str) -> Option<Who> {
    if let Some(rest) = line.strip_prefix("task:") {
        let (name, rest) = rest.split_once(" state:")?;
        let (_, rest) = rest.split_once("pid:")?;
        let tid = rest.split_whitespace().next()?.parse().ok()?;
        return Some(Who { tid, name: name.trim().to_owned(), pointer: None });
    }
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let [name, state, address, free, tid, ..] = words[..] else { return None };
    let is_state = state.len() == 1 && state.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_address = address.len() >= 8 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_task = is_state && is_address && free.parse::<u64>().is_ok();
    let tid = tid.parse().ok().filter(|_| is_task)?;
    Some(Who { tid, name: name.to_owned(), pointer: None })
}

/// `[<0>] futex_wait_queue_me+0xc4/0x120`; a frame that the kernel is not sure of (`? f+0x1/0x2`) is one, and left out.
fn place(line: &str) -> Option<Option<Place>> {
    let (address, rest) = match line.strip_prefix("[<").and_then(|rest| rest.split_once(">]")) {
        Some((address, rest)) => {
            (u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?, rest.trim())
        }
        None => (0, line),
    };
    let (is_unsure, rest) = rest.strip_prefix("? ").map_or((false, rest), |rest| (true, rest));
    let (call, module) = match rest.split_once(" [") {
        Some((call, module)) => (call, Some(module.trim_end_matches(']'))),
        None => (rest, None),
    };
    if call == "0xffffffffffffffff" {
        return Some(None);
    }
    let (name, sizes) = call.rsplit_once("+0x")?;
    let (offset, size) = sizes.split_once("/0x")?;
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
    if !(is_hex(offset) && is_hex(size) && is_name) {
        return None;
    }
    let place = Place {
        name: name.to_owned(),
        module: module.map(|module| format!("[{module}]")),
        address,
        kernel: true,
        ..Place::default()
    };
    Some((!is_unsure).then_some(place))
}

/// Whose stack follows: the path of the file, the kernel's line about a task, or an id alone.
fn header(line: &str) -> Option<Who> {
    if let Some((_, rest)) = line.split_once("task ").filter(|_| line.contains("blocked for more than")) {
        let (name, rest) = rest.split_once(':')?;
        let tid = rest.split(' ').next()?.parse().ok()?;
        return Some(Who { tid, name: name.to_owned(), pointer: None });
    }
    if let Some(task) = state(line) {
        return Some(task);
    }
    if let Some((before, _)) = line.split_once("/stack") {
        let tid = before.rsplit('/').next()?.parse().ok()?;
        return Some(Who { tid, ..Who::default() });
    }
    let words: Vec<&str> =
        line.split([' ', ':', '\t', '-', '=', '#', '(', ')']).filter(|word| !word.is_empty()).collect();
    let tid = words.iter().find_map(|word| word.parse::<u32>().ok())?;
    let known = ["TID", "tid", "PID", "pid", "LWP", "task", "thread", "Thread", "connection"];
    let is_header =
        words.iter().all(|word| word.parse::<u32>().is_ok() || known.contains(word) || is_server(word));
    let name = words.iter().find(|word| is_server(word)).map(|name| (*name).to_owned());
    (is_header && words.len() <= 4).then(|| Who { tid, name: name.unwrap_or_default(), pointer: None })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;

    use super::*;

    #[test]
    fn stacks_of_proc_and_of_the_kernel_s_log_are_read() {
        let text = "==> /proc/4711/task/4712/stack <==\n[<ffffffff810f2a4c>] futex_wait_queue_me+0xc4/0x120\n[<0>] do_futex+0x10a/0x4a0\n[<ffffffffffffffff>] 0xffffffffffffffff\n\n\
                    [12345.678901] INFO: task mysqld:4713 blocked for more than 120 seconds.\n[12345.6] Call Trace:\n[12345.6]  io_schedule+0x12/0x40\n[12345.6]  ? unsure+0x1/0x2\n[12345.6]  zil_commit.part.3+0x2e3/0x740 [zfs]\n[12345.6]  __x64_sys_fsync+0x10/0x20\n";
        let read = read(text).unwrap();
        assert_eq!((read.threads, read.lines_not_understood), (2, 0));
        let threads: Vec<u32> = read.profile.threads.iter().map(|thread| thread.tid).collect();
        assert_eq!(threads, [4712, 4713]);
        let states: Vec<ThreadState> = read.profile.observations.iter().map(|one| one.state).collect();
        assert_eq!(states, [ThreadState::Futex, ThreadState::Sync]);
        let names: Vec<&str> = read.profile.frames.iter().map(|frame| frame.name.as_str()).collect();
        assert_eq!(names[2..], ["io_schedule", "zil_commit", "__x64_sys_fsync"]);
        assert_eq!(read.profile.modules[0].path, "[zfs]");
    }

    #[test]
    fn a_task_is_known_by_its_state_and_what_the_system_s_log_puts_before_it_is_none_of_it() {
        let log = |before: &str| {
            format!(
                "{before}mysqld          D ffff88083fc53440     0  4713   4000 0x00000000\n{before} ffff8802d283b408 0000000000000086\n\
                 {before}Call Trace:\n{before} [<ffffffff81766f6d>] io_schedule+0x9d/0x130\n{before} sleep_on_page+0xe/0x20\n"
            )
        };
        let newer = log("").replace(
            "mysqld          D ffff88083fc53440     0  4713   4000 0x00000000",
            "task:mysqld          state:D stack:    0 pid: 4713 ppid:  4000 flags:0x00000000",
        );
        let prefixes = [
            "Mar 12 03:10:11 db1 kernel: [12345.678901] ",
            "Mar 12 03:10:11 kernel: ",
            "[Tue Mar 12 03:10:11 2024] ",
        ];
        for text in prefixes.map(log).iter().chain([&newer]) {
            let read = read(text).unwrap();
            assert_eq!((read.threads, read.lines_not_understood), (1, 0), "{text}");
            let thread = &read.profile.threads[0];
            assert_eq!((thread.tid, thread.name.as_str()), (4713, "mysqld"), "{text}");
            let names: Vec<&str> = read.profile.frames.iter().map(|frame| frame.name.as_str()).collect();
            assert_eq!(names, ["io_schedule", "sleep_on_page"], "{text}");
        }
    }
}
