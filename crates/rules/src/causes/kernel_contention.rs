//! `kernel-contention`: CPU that goes into spinning on locks of the kernel.

use std::collections::BTreeMap;

use spindoctor_model::stack::{Observation, Profile, Spin};
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window, number};

use super::{cpu_saturated, cpu_throttled};
use crate::draft::Draft;
use crate::spin_samples::{self, SpinSamples, Whose};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "kernel-contention",
    title: "a large share of CPU goes into spinning on locks of the kernel",
    what: "The kernel guards its own data with locks: the memory map of the process, the table of futexes, what a file system \
           keeps of a file, of its cache or of its log. A thread that finds such a lock taken spins in the kernel until it \
           gets it. All threads of the server share one memory map, and mostly one file system; other programs share the \
           file system and its cache.",
    why_it_hurts: "The CPUs look busy, and the server gets little done: the more threads and CPUs want the lock, the longer each \
                   of them spins. No setting of InnoDB's spin loops acts on it.",
    evidence: "CPU samples of the server whose innermost function is a spin lock of the kernel (native_queued_spin_lock_slowpath, \
               osq_lock, rwsem_spin_on_owner, mutex_spin_on_owner; in older kernels _raw_spin_lock itself). It fires from a \
               tenth of all samples on. The functions that call them show which part of the kernel it is; modules of the \
               kernel in other samples show the file system where no caller is known.",
    looks_alike: "Time in the kernel that is no spinning is work: reads, writes, page faults. Spinning in the server's own loops \
                  is spin-burn. A guest of a virtual machine whose host has too few CPUs spins for locks whose holder does not \
                  run: then steal time is high, too.",
    remedies: "It depends on the part of the kernel. File system: another program on the same one (backup, log shipping, an agent \
               that walks folders) is stopped or moved; a file system whose cache is full gets more memory, or a limit that it \
               keeps to (ZFS: zfs_arc_max); data goes to XFS or ext4. Memory map: another allocator (jemalloc, tcmalloc), and \
               no transparent huge pages. Futexes: fewer sessions at work at a time.",
    safety: "Looking with perf costs little. Another allocator needs a restart of the server, another file system a copy of the \
             data. Limits of caches are dynamic, and their old values undo them.",
    references: &[
        "https://docs.kernel.org/locking/mutex-design.html",
        "https://docs.kernel.org/mm/process_addrs.html",
        "https://github.com/openzfs/zfs/issues/6187",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Spin, TimeClass::Kernel, TimeClass::CpuQueue, TimeClass::CpuQuota],
    stacks: Stacks::Spinning(Whose::Kernel),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From this share of CPU samples on it fires: as [`super::spin_burn`] does. A busy healthy server is at some percent.
const BURNT: f64 = 0.10;

/// A module of the kernel in fewer of the samples than this is no hint: a network card's driver has some.
const MODULE: f64 = 0.005;

/// Functions that are named, and threads.
const NAMED: usize = 3;

/// The parts of the kernel that servers spin in, by how functions begin that the lock is taken below, with what to do.
const PARTS: &[(&str, &[&str], &str)] = &[
    (
        "the memory map of the process",
        &[
            "vm_mmap",
            "vm_munmap",
            "__vm_munmap",
            "do_mmap",
            "do_munmap",
            "__do_munmap",
            "do_madvise",
            "do_user_addr_fault",
            "__do_page_fault",
            "do_page_fault",
            "mprotect",
            "do_mprotect",
            "__x64_sys_mmap",
            "__x64_sys_munmap",
            "__x64_sys_brk",
            "__x64_sys_madvise",
        ],
        "Use another allocator (jemalloc or tcmalloc by LD_PRELOAD), and switch transparent huge pages off",
    ),
    (
        "futexes",
        &["futex_", "do_futex", "__futex", "__x64_sys_futex", "SyS_futex"],
        "Let fewer sessions work at a time: a smaller pool, or a thread pool",
    ),
    (
        "reclaiming memory",
        &[
            "shrink_",
            "try_to_free_",
            "kswapd",
            "isolate_",
            "lru_",
            "pagevec_",
            "folio_batch",
            "release_pages",
            "compact_",
        ],
        "Leave the kernel more free memory: a smaller buffer pool or limit of other programs, a larger vm.min_free_kbytes",
    ),
    (
        "the file system",
        &[
            "ext4_",
            "jbd2_",
            "xfs_",
            "btrfs_",
            "zfs_",
            "zpl_",
            "zil_",
            "zio_",
            "arc_",
            "dmu_",
            "dbuf_",
            "dnode_",
            "fuse_",
            "nfs_",
            "vfs_fsync",
            "ksys_pread64",
            "ksys_pwrite64",
            "vfs_read",
            "vfs_write",
            "generic_file_",
            "do_filp_open",
            "path_openat",
            "lookup_",
            "ovl_",
        ],
        "Look at what else uses the file system, and stop or move it; give its cache more memory or a limit that it keeps to",
    ),
    (
        "the network",
        &["tcp_", "inet_", "sock_", "__dev_queue_xmit", "net_rx", "nf_", "ip_"],
        "Use fewer and longer connections, and look at netfilter's rules and the card's queues",
    ),
    (
        "the run queue",
        &["try_to_wake_up", "load_balance", "__schedule", "schedule"],
        "Let fewer threads run at a time: a smaller pool, or a thread pool",
    ),
];

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(samples) = SpinSamples::unless_idle(window)? else { return Ok(None) };
    let share = samples.share(Whose::Kernel);
    if share < BURNT {
        return Ok(None);
    }
    let profile = samples.profile();
    let spinning = || profile.samples().iter().filter(|sample| sample.spin == Some(Spin::Kernel));
    let functions = most(spinning().filter_map(|sample| spin_samples::kernel_names(profile, sample).next()));
    let function = functions.first().map_or("a spin lock", |(name, _)| *name);
    let part = part(profile, spinning());
    let modules = modules(profile);
    let below = match (part, modules.first()) {
        (_, Some((module, _))) => format!(", and its samples lie in the module {module}"),
        (Some((part, _)), None) => format!(", for {part}"),
        (None, None) => String::new(),
    };
    let threads = most(spinning().filter_map(|sample| thread_name(profile, sample)));
    let all = spinning().count().max(1) as f64;
    let who: Vec<String> = threads
        .iter()
        .take(NAMED)
        .map(|(name, count)| format!("{} {name}", number::whole_percent(*count as f64 / all)))
        .collect();
    let remedy = part.map_or(
        "Find what takes the lock: perf record -g -p $(pidof mysqld mariadbd | tr ' ' ,) -- sleep 10; perf report --no-children",
        |(_, remedy)| remedy,
    );
    let is_of_modules = part.is_none() && !modules.is_empty();
    let file_system = PARTS[3].2;
    Ok(Some(
        Draft::new(
            &CAUSE,
            share,
            format!("{:.0} % of the CPU time goes into spinning on a lock of the kernel, in {function}{below}", share * 100.0),
        )
        .why(
            "The threads spin in the kernel, not in the server: InnoDB's spin settings change nothing of it. Who else takes the \
             same lock, and what it guards, is what to look at.",
        )
        .evidence(Evidence::new("spinning in the kernel", share, "ratio", "CPU samples").expected(format!("< {BURNT}")))
        .evidence_all(functions.iter().take(NAMED).map(|(name, count)| {
            Evidence::new("spins in", format!("{} {name}", number::whole_percent(*count as f64 / all)), "", "CPU samples")
        }))
        .evidence_if((!who.is_empty()).then(|| Evidence::new("threads that spin there", who.join(", "), "", "CPU samples")))
        .evidence_all(modules.iter().take(NAMED).map(|(module, share)| {
            Evidence::new("module of the kernel in the samples", format!("{:.1} % {module}", share * 100.0), "", "CPU samples")
        }))
        .remedy(Remedy {
            statement: if is_of_modules { file_system } else { remedy }.into(),
            why: "The lock is free again when fewer threads want it, or want it less often.".into(),
            dynamic: true,
            risk: "Depends on what is changed; looking costs nothing.".into(),
            undo: String::new(),
        })
        .explains(&[cpu_saturated::CAUSE.name, cpu_throttled::CAUSE.name])
        .finding(),
    ))
}

/// The part of the kernel below which most of the samples spin, and what to do.
fn part<'a>(
    profile: &Profile,
    spinning: impl Iterator<Item = &'a Observation>,
) -> Option<(&'static str, &'static str)> {
    let of_sample = |sample: &Observation| {
        spin_samples::kernel_names(profile, sample).find_map(|name| {
            PARTS.iter().position(|(_, begins, _)| begins.iter().any(|begin| name.starts_with(begin)))
        })
    };
    most(spinning.filter_map(of_sample)).first().map(|&(at, _)| (PARTS[at].0, PARTS[at].2))
}

/// Modules of the kernel in which samples lie, with their share of all samples, the largest first.
fn modules(profile: &Profile) -> Vec<(String, f64)> {
    let of_sample = |sample: &Observation| {
        let frames = &profile.stacks.get(sample.stack as usize)?.frames;
        frames.iter().find_map(|&at| {
            let frame = profile.frames.get(at as usize).filter(|frame| frame.kernel)?;
            let path = profile.modules.get(frame.module? as usize)?.path.as_str();
            let name = path.trim_start_matches('[').trim_end_matches(']');
            let name = name.rsplit('/').next().unwrap_or(name).split(".ko").next().unwrap_or(name);
            let is_kernel_itself =
                name.starts_with("kernel") || name.starts_with("guest.kernel") || name.starts_with("vmlinux");
            (!is_kernel_itself).then_some(name)
        })
    };
    let all = profile.samples().len().max(1) as f64;
    let counted = most(profile.samples().iter().filter_map(of_sample)).into_iter();
    counted
        .map(|(name, count)| (name.to_owned(), count as f64 / all))
        .filter(|(_, share)| *share >= MODULE)
        .collect()
}

fn thread_name<'p>(profile: &'p Profile, sample: &Observation) -> Option<&'p str> {
    profile
        .threads
        .get(sample.thread as usize)
        .map(|thread| thread.name.as_str())
        .filter(|name| !name.is_empty())
}

/// What there is how many times, the most frequent first.
fn most<K: Ord>(seen: impl Iterator<Item = K>) -> Vec<(K, usize)> {
    let mut counted: BTreeMap<K, usize> = BTreeMap::new();
    for one in seen {
        *counted.entry(one).or_default() += 1;
    }
    let mut counted: Vec<(K, usize)> = counted.into_iter().collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::{Module, ProfiledThread};

    use super::*;
    use crate::testing::Build;

    /// A share of the samples spins in the kernel below these functions.
    fn spinning(share: f64, frames: &[&str]) -> Window {
        let mut window = Build::busy("8.0.36").cpu_samples(1000, share, frames).window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { return window };
        for frame in profile.frames.iter_mut().take(frames.len()) {
            frame.kernel = true;
        }
        for sample in &mut profile.cpu_samples {
            sample.spin = sample.spin.map(|_| Spin::Kernel);
        }
        profile.threads = vec![ProfiledThread { name: "connection".into(), ..ProfiledThread::default() }];
        window
    }

    const MAP: &[&str] =
        &["rwsem_spin_on_owner", "rwsem_down_write_slowpath", "vm_mmap_pgoff", "do_syscall_64"];

    pub(crate) fn fires() -> Window {
        spinning(0.45, MAP)
    }

    pub(crate) fn near_miss() -> Window {
        spinning(0.09, MAP)
    }

    pub(crate) fn missing() -> Window {
        let mut window = fires();
        window.profile = Reading::Unavailable(Unavailable::because("no permission"));
        window
    }

    #[test]
    fn the_lock_its_part_of_the_kernel_and_who_spins_are_named() {
        let finding = crate::diagnose(&fires()).findings.remove(0);
        assert_eq!(
            finding.headline,
            "45 % of the CPU time goes into spinning on a lock of the kernel, in rwsem_spin_on_owner, for the memory map of the \
             process"
        );
        assert!(finding.remedies[0].statement.contains("jemalloc"), "{finding:?}");
        let shown = format!("{:?}", finding.evidence);
        assert!(shown.contains("100 % connection"), "{shown}");
        assert!(!format!("{:?}", finding.remedies).contains("spin_wait"), "{finding:?}");
    }

    #[test]
    fn a_module_of_the_kernel_stands_for_callers_that_are_not_known() {
        let mut window = spinning(0.85, &["_raw_spin_lock_irqsave"]);
        let Reading::Available { value: profile, .. } = &mut window.profile else { unreachable!() };
        profile.modules = vec![Module { path: "[zfs]".into(), build_id: None }];
        profile.frames[1].kernel = true;
        profile.frames[1].module = Some(0);
        profile.frames[1].name = "dbuf_read".into();
        profile.stacks[0].frames.truncate(1);
        let finding = crate::diagnose(&window).findings.remove(0);
        assert!(finding.headline.ends_with("its samples lie in the module zfs"), "{}", finding.headline);
        assert!(finding.remedies[0].statement.contains("file system"), "{finding:?}");
    }
}
