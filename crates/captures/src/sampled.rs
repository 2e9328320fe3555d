//! What stacks of a text come to, in words: the functions that most CPU samples are in, and where each of few threads is.

use std::collections::BTreeMap;

use spindoctor_model::stack::{Observation, Profile, StackSource};

use crate::stacks::{is_function_of_server, is_server_program};

/// Functions that are named.
const NAMED: usize = 3;
/// From this share of the samples on.
const LEAST: f64 = 0.02;

/// A sentence on the samples of a profile; none where it has no samples.
pub(crate) fn sentence(profile: &Profile) -> Option<String> {
    let samples = profile.samples();
    let mut counts: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for sample in samples {
        let stack = profile.stacks.get(sample.stack as usize);
        let frame = stack.and_then(|stack| profile.frames.get(*stack.frames.first()? as usize));
        let thread = profile.threads.get(sample.thread as usize).map_or("", |thread| thread.name.as_str());
        let Some(frame) = frame else { continue };
        let module = frame
            .module
            .and_then(|at| profile.modules.get(at as usize))
            .map_or("", |module| module.path.as_str());
        *counts.entry((thread, frame.name.as_str(), module)).or_default() += 1;
    }
    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |count: u64| count as f64 / samples.len().max(1) as f64;
    let shown = most.iter().take(NAMED).filter(|(_, count)| share(*count) >= LEAST);
    let named: Vec<String> = shown
        .map(|((thread, function, module), count)| {
            let thread = if thread.is_empty() { String::new() } else { format!("{thread} in ") };
            let module = if module.is_empty() { String::new() } else { format!(" ({module})") };
            format!("{:.0} % {thread}{function}{module}", share(*count) * 100.0)
        })
        .collect();
    (!named.is_empty()).then(|| format!("of the CPU samples {}", named.join(", ")))
}

/// Functions that read rows one after the other, by how their names begin: InnoDB's cursor, the row of its page as the server has it, and the
/// loop that asks for the next one (storage/innobase/row/row0sel.cc, sql/sql_executor.cc).
const READS: [&str; 18] = [
    "row_search_mvcc",
    "row_search_for_mysql",
    "row_sel_",
    "rec_get_offsets",
    "rec_init_offsets",
    "btr_pcur_move_to_next",
    "ha_innobase::general_fetch",
    "ha_innobase::rnd_next",
    "ha_innobase::index_next",
    "handler::ha_rnd_next",
    "handler::ha_index_next",
    "rr_sequential",
    "evaluate_join_record",
    "sub_select",
    "TableScanIterator::Read",
    "FilterIterator::Read",
    "Item_func_like::",
    "Item_cond_and::val_int",
];
/// Functions that compare texts by their collation (strings/ctype-uca.cc, ctype-utf8.cc, item_cmpfunc.cc).
const COMPARES: [&str; 7] = [
    "my_strnxfrm",
    "my_strnncoll",
    "my_hash_sort",
    "my_wildcmp",
    "my_like_range",
    "my_uca_",
    "Item_func_like::",
];
/// Parts of the samples that are worth a sentence, of reads and of comparisons. By judgement.
const MOSTLY_READS: f64 = 0.4;
const COMPARISONS: f64 = 0.1;

/// A sentence on CPU samples of which most read rows one after the other, and on texts that are compared meanwhile.
pub(crate) fn scan(profile: &Profile) -> Option<String> {
    if profile.source != StackSource::Cpu {
        return None;
    }
    let samples = profile.samples();
    let part = |begins: &[&str]| {
        let is_such = |stack: u32| {
            let first = profile.stacks.get(stack as usize).and_then(|stack| stack.frames.first());
            let frame = first.and_then(|&at| profile.frames.get(at as usize));
            frame.is_some_and(|frame| begins.iter().any(|begin| frame.name.starts_with(begin)))
        };
        samples.iter().filter(|sample| is_such(sample.stack)).count() as f64 / samples.len().max(1) as f64
    };
    let (reads, compares) = (part(&READS), part(&COMPARES));
    let texts = match compares >= COMPARISONS {
        true => format!(
            ", and {:.0} % compare texts by their collation (LIKE with a % in front, or a text of another collation, can use no index)",
            compares * 100.0
        ),
        false => String::new(),
    };
    (reads >= MOSTLY_READS).then(|| {
        format!(
            "of the CPU samples {:.0} % read rows one after the other{texts}: statements that scan. SHOW FULL PROCESSLIST names them, and EXPLAIN \
             says which table is read whole",
            reads * 100.0
        )
    })
}

/// Functions of the kernel that move pages together until many are free in one piece (mm/compaction.c), and those that look for memory to
/// free (mm/vmscan.c, mm/page_alloc.c).
const COMPACTS: [&str; 8] = [
    "isolate_freepages_block",
    "isolate_freepages",
    "isolate_migratepages_block",
    "compaction_alloc",
    "compact_zone",
    "compact_zone_order",
    "try_to_compact_pages",
    "__alloc_pages_direct_compact",
];
const RECLAIMS: [&str; 10] = [
    "shrink_page_list",
    "shrink_folio_list",
    "shrink_inactive_list",
    "shrink_lruvec",
    "shrink_zone",
    "shrink_node",
    "shrink_slab",
    "try_to_free_pages",
    "do_try_to_free_pages",
    "__alloc_pages_direct_reclaim",
];
/// Part of the samples in them that is worth a sentence. By judgement.
const MUCH: f64 = 0.2;

/// A sentence on CPU samples of which many are where the kernel makes memory free.
pub(crate) fn memory_of_kernel(profile: &Profile) -> Option<String> {
    let samples = profile.samples();
    let share = |functions: &[&str]| {
        let is_there = |stack: u32| {
            let stack = profile.stacks.get(stack as usize);
            let frames = stack.into_iter().flat_map(|stack| &stack.frames);
            frames
                .filter_map(|&at| profile.frames.get(at as usize))
                .any(|frame| functions.contains(&frame.name.as_str()))
        };
        samples.iter().filter(|sample| is_there(sample.stack)).count() as f64 / samples.len().max(1) as f64
    };
    let (compacts, reclaims) = (share(&COMPACTS), share(&RECLAIMS));
    match () {
        () if compacts >= MUCH => Some(format!(
            "of the CPU samples {:.0} % are where the kernel moves pages to have many free in one piece (compaction): transparent huge \
             pages ask for them; echo never > /sys/kernel/mm/transparent_hugepage/defrag stops that",
            compacts * 100.0
        )),
        () if reclaims >= MUCH => Some(format!(
            "of the CPU samples {:.0} % are where the kernel looks for memory to free: the host has too little",
            reclaims * 100.0
        )),
        () => None,
    }
}

/// Where each thread is, of few: of more the findings say where most are.
pub(crate) fn places(profile: &Profile) -> Vec<String> {
    const FEW: usize = 3;
    const FUNCTIONS: usize = 4;
    if profile.source == StackSource::Cpu || profile.observations.len() > FEW {
        return Vec::new();
    }
    let place = |thread: u32, stack: u32| -> Option<(u32, String)> {
        let frames = profile.stacks.get(stack as usize)?.frames.iter();
        let names = frames.filter_map(|&at| Some(profile.frames.get(at as usize)?.name.as_str()));
        let names: Vec<&str> = names.skip_while(|name| is_of_a_lock(name)).take(FUNCTIONS).collect();
        let id = profile.threads.get(thread as usize).map_or(0, |thread| thread.tid);
        (!names.is_empty()).then(|| (id, names.join(" < ")))
    };
    // Threads without a number are said together.
    let mut said: Vec<(u32, String, usize)> = Vec::new();
    for (id, place) in profile.observations.iter().filter_map(|seen| place(seen.thread, seen.stack)) {
        match said.iter_mut().find(|(other, same, _)| id == 0 && *other == 0 && *same == place) {
            Some((.., count)) => *count += 1,
            None => said.push((id, place, 1)),
        }
    }
    let sentence = |(id, place, count): (u32, String, usize)| match (id, count) {
        (0, 1) => format!("a thread is in {place}"),
        (0, count) => format!("{count} threads are in {place}"),
        (id, _) => format!("the thread {id} is in {place}"),
    };
    said.into_iter().map(sentence).collect()
}

/// Where the threads of a server are whose functions have no names: those of the system's libraries alone say what they wait in.
pub(crate) fn nameless(profile: &Profile) -> Option<String> {
    /// Fewer are shown one by one.
    const FEW: usize = 3;
    let is_named = || profile.frames.iter().any(|frame| is_function_of_server(&frame.name));
    let is_of_many = profile.source != StackSource::Cpu && profile.observations.len() > FEW;
    if !is_of_many || !is_server_program(&profile.process.name) || is_named() {
        return None;
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seen in &profile.observations {
        let innermost = profile.stacks.get(seen.stack as usize).and_then(|stack| stack.frames.first());
        if let Some(frame) = innermost.and_then(|&at| profile.frames.get(at as usize)) {
            *counts.entry(frame.name.as_str()).or_default() += 1;
        }
    }
    let mut most: Vec<(&str, u64)> = counts.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let named: Vec<String> =
        most.iter().take(NAMED).map(|(name, count)| format!("{name} ({count})")).collect();
    Some(format!(
        "the server's functions have no names here: its threads are in {}. With its debug symbols (Debian: mariadb-server-core-dbgsym, RPM: the \
         -debuginfo package) stacks say what for",
        named.join(", ")
    ))
}

/// A thread that deletes a file while sessions wait for mutexes, which do not say whose they are: a server deletes tables and binary logs
/// under locks of its own.
pub(crate) fn deletion(profile: &Profile) -> Option<String> {
    const DELETES: [&str; 4] = ["unlink", "unlinkat", "__unlink", "__GI_unlink"];
    /// Fewer may wait for anything.
    const FEW: usize = 2;
    const FUNCTIONS: usize = 4;
    let names = |seen: &Observation| -> Vec<&str> {
        let stack = profile.stacks.get(seen.stack as usize);
        let frames = stack.into_iter().flat_map(|stack| &stack.frames);
        frames.filter_map(|&at| Some(profile.frames.get(at as usize)?.name.as_str())).collect()
    };
    if profile.source == StackSource::Cpu {
        return None;
    }
    let is_deleting = |seen: &&Observation| {
        let names = names(seen);
        names.first().is_some_and(|name| DELETES.contains(name)) && names.contains(&"do_command")
    };
    let deleting = profile.observations.iter().find(is_deleting)?;
    let waits = |seen: &&Observation| {
        let names = names(seen);
        names.first().is_some_and(|name| name.trim_start_matches('_').starts_with("lll_lock"))
            && names.contains(&"do_command")
    };
    let waiting = profile.observations.iter().filter(waits).count();
    let id = profile.threads.get(deleting.thread as usize).map_or(0, |thread| thread.tid);
    let place: Vec<&str> = names(deleting).into_iter().take(FUNCTIONS).collect();
    (waiting >= FEW).then(|| {
        format!(
            "the thread {id} deletes a file ({}) while {waiting} sessions wait for mutexes: most likely for one that it keeps until the file is \
             gone, which takes long for a large one",
            place.join(" < ")
        )
    })
}

/// True for a function of the C library in which threads wait for any lock.
fn is_of_a_lock(name: &str) -> bool {
    const BEGINS: [&str; 6] = ["lll_", "L_lock_", "pthread_", "GI___pthread_", "futex", "psynch_"];
    let bare = name.trim_start_matches('_');
    BEGINS.iter().any(|begin| bare.starts_with(begin)) || name == "syscall"
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_of_a_server_without_names_are_said_by_what_they_are_in() {
        let text = "     41 __lll_lock_wait(libpthread.so.0),pthread_mutex_lock(libpthread.so.0),??(mysqld),start_thread(libpthread.so.0),clone(libc.so.6)\n\
                    \x20    12 poll(libc.so.6),??(mysqld),??(mysqld),start_thread(libpthread.so.0),clone(libc.so.6)\n";
        let says = |text: &str| {
            let says = crate::recognise("x", text).into_iter().flat_map(|part| part.says);
            says.filter(|one| one.contains("have no names here")).collect::<Vec<_>>()
        };
        let said = says(text);
        let wanted =
            "the server's functions have no names here: its threads are in __lll_lock_wait (41), poll (12).";
        assert!(said.len() == 1 && said[0].starts_with(wanted), "{said:?}");
        assert_eq!(says(&text.replacen("??(mysqld)", "do_command(sql_parse.cc:7)", 1)), Vec::<String>::new());
    }

    #[test]
    fn who_deletes_a_file_while_others_wait_for_mutexes_is_named() {
        let thread = |id: u32, innermost: &str| {
            format!(
                "Thread {id} (Thread 0x7f0{id} (LWP {id})):\n#0  {innermost} () from /lib64/libc.so.6\n\
                 #1  0x0000000000000562 in MYSQL_BIN_LOG::purge_logs () at /b/binlog.cc:5600\n#2  0x0000000000000567 in do_command () at /b/a.cc:1\n"
            )
        };
        let says = |text: &str| {
            let says = crate::recognise("x", text).into_iter().flat_map(|part| part.says);
            says.filter(|one| one.contains("deletes a file")).collect::<Vec<_>>()
        };
        let text = format!(
            "{}{}{}",
            thread(9, "unlink"),
            thread(8, "__lll_lock_wait"),
            thread(7, "__lll_lock_wait")
        );
        let said = says(&text);
        let wanted = "the thread 9 deletes a file (unlink < MYSQL_BIN_LOG::purge_logs < do_command) while 2 sessions wait for mutexes";
        assert!(said.len() == 1 && said[0].starts_with(wanted), "{said:?}");
        assert_eq!(says(&text.replace("unlink", "poll")), Vec::<String>::new());
        assert_eq!(says(&text.replacen("__lll_lock_wait", "poll", 1)), Vec::<String>::new());
    }

    #[test]
    fn samples_that_read_row_after_row_are_a_scan() {
        let report = |rows: &[(&str, f64)]| -> String {
            let line = |(name, percent): &(&str, f64)| {
                format!("    {percent:.2}%  connection  mysqld  [.] {name}\n")
            };
            let rows: String = rows.iter().map(line).collect();
            let text = format!("# Overhead  Command  Shared Object  Symbol\n{rows}");
            crate::recognise("x", &text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
        };
        let scans = report(&[
            ("row_search_mvcc", 30.0),
            ("rec_get_offsets_func", 14.0),
            ("Item_func_like::val_int", 9.0),
            ("my_strnxfrm_uca_900_tmpl<Mb_wc_utf8mb4, 1>", 8.0),
            ("ut_delay", 2.0),
        ]);
        assert!(scans.contains("53 % read rows one after the other, and 17 % compare texts"), "{scans}");
        let works = report(&[("row_search_mvcc", 12.0), ("log_write_up_to", 30.0), ("JOIN::optimize", 20.0)]);
        assert!(!works.contains("one after the other"), "{works}");
    }

    #[test]
    fn memory_that_the_kernel_makes_free_is_said() {
        let report = |function: &str| {
            format!(
                "# Overhead  Command  Shared Object      Symbol\n    61.00%  mysqld   [kernel.kallsyms]  [k] {function}\n    \
                 12.00%  mysqld   mysqld             [.] row_search_mvcc\n"
            )
        };
        let said = |text: &str| {
            let says = crate::recognise("x", text).into_iter().flat_map(|part| part.says);
            says.filter(|one| one.contains("where the kernel")).collect::<Vec<_>>()
        };
        let compacts = said(&report("isolate_freepages_block"));
        assert!(compacts[0].contains("61 % are where the kernel moves pages"), "{compacts:?}");
        assert!(said(&report("shrink_page_list"))[0].contains("looks for memory to free"));
        assert_eq!(said(&report("do_syscall_64")), Vec::<String>::new());
        assert_eq!(said(&report("shrink_page_list").replace("61.00", "11.00")), Vec::<String>::new());
    }
}
