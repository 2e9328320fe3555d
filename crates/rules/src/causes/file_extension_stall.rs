//! `file-extension-stall`: a data file is being extended while others wait.

use spindoctor_model::{Finding, Remedy, TimeClass, Unavailable, Window};

use super::{index_lock, storage_stalled};
use crate::draft::Draft;
use crate::stall::{LATCH_WAITS, Look, Stall, nobody};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "file-extension-stall",
    title: "a data file is being extended while others wait",
    what: "A table that grows needs pages; when its file has none left, the session that comes along extends the \
           file, by four megabytes at a time, and fills that with zeros (MySQL from 8.0.22 on, unless \
           innodb_extend_and_initialize is off; 5.7 and before always). It does so with the tablespace and the index \
           locked. On 5.6 and before one mutex of all files is held, and every I/O of the server waits.",
    why_it_hurts: "Every session that needs a page of that table, or its index lock, waits for the disk. On a disk of a hundred \
                   writes a second a table that takes in megabytes a second is blocked a large part of the time, in \
                   stalls of a tenth of a second and more that look like nothing at all in averages.",
    evidence: "Stacks of all threads, ten times a second: a thread in fil_space_extend (5.6: \
               fil_extend_space_to_desired_size), and in the same snapshot sessions that wait for a latch of InnoDB. \
               It fires when two or more sessions on average are blocked this way, and they are 10 % or more of the \
               sessions at work. The estimate is that share.",
    looks_alike: "Waits for an index lock while nobody extends a file are index-lock. A disk that is slow for commits \
                  is commit-sync-bound, and often the same disk. Temporary tables on disk grow too, in files of \
                  their own.",
    remedies: "On MySQL 8.0.22 and later innodb_extend_and_initialize = OFF where the file system can reserve space \
               (ext4, xfs): the file grows without a write. AUTOEXTEND_SIZE of the table (8.0.23): fewer and larger \
               steps, good only together with that. Else storage that writes four megabytes faster; or load into a \
               table that has its pages already.",
    safety: "innodb_extend_and_initialize is dynamic and undone with ON. Space that is reserved and not written reads \
             as zeros; the first write of each page then also writes the file system's metadata, so steady writes \
             become a little slower.",
    references: &[
        "Domas Mituzas, on stalls: Extending data files stalls the server (MySQL bug #56433)",
        "MySQL Reference Manual: innodb_extend_and_initialize; AUTOEXTEND_SIZE; Optimizing Tablespace Space Allocation on Linux",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Latch, TimeClass::Mutex, TimeClass::Write, TimeClass::Commit],
    stacks: Stacks::Standing(DOES),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// What extends a file: fil0fil.cc. The first is 5.7's and later ones', the second 5.6's and before.
const DOES: &[&str] = &["fil_space_extend", "fil_extend_space_to_desired_size", "Fil_shard::space_extend"];

/// Writing zeros is a choice from this version on.
const HAS_SWITCH: (u16, u16, u16) = (8, 0, 22);

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let look = Look { does: DOES, waits: nobody, waits_beside: waits_for_latch };
    let Some(stall) = Stall::count(window, look)? else { return Ok(None) };
    if !stall.matters() {
        return Ok(None);
    }
    let [held_up, share] = stall.evidence("sessions that extend a file, or wait for a latch meanwhile");
    Ok(Some(
        Draft::new(
            &CAUSE,
            stall.ratio(),
            format!(
                "{:.1} sessions on average are blocked while a data file is extended",
                stall.held_up
            ),
        )
        .why(format!(
            "A data file was being extended in {:.0} % of the snapshots; of {:.1} sessions at work {:.1} waited for that.",
            stall.seen_ratio * 100.0,
            stall.at_work,
            stall.held_up
        ))
        .evidence(held_up)
        .evidence(share)
        .remedy_if(reserve_only(window))
        .remedy(Remedy {
            statement: "Put the data on storage that writes four megabytes faster".into(),
            why: "The stall is as long as that write.".into(),
            dynamic: false,
            ..Remedy::default()
        })
        .root(stall.root(window))
        .explains(&[index_lock::CAUSE.name])
        .explains(if storage_stalled::hangs(window) { &[] } else { &[storage_stalled::CAUSE.name] })
        .finding(),
    ))
}

/// Growing without writing, where this server can and does not.
fn reserve_only(window: &Window) -> Option<Remedy> {
    let version = window.server.version?;
    let writes = window.latest(|s| &s.server.variables)?.switch("innodb_extend_and_initialize")?;
    let since = (version.major, version.minor, version.patch) >= HAS_SWITCH;
    (writes && since).then(|| Remedy {
        statement: "SET GLOBAL innodb_extend_and_initialize = OFF".into(),
        why: "The file system reserves the space (ext4, xfs), and nothing is written to grow.".into(),
        dynamic: true,
        risk: "The first write of each page writes the file system's metadata too. A file system that cannot reserve \
               writes the zeros as before."
            .into(),
        undo: "SET GLOBAL innodb_extend_and_initialize = ON".into(),
    })
}

/// True for a stack (names, innermost first) whose I/O is that of a file which is made larger: the writes of its zeros, the sync behind
/// them, or the file system's own work for it, where InnoDB's functions have no names.
pub(super) fn extends(names: &[&str]) -> bool {
    let reserves = |name: &&str| *name == "os_file_set_size" || name.contains("posix_fallocate");
    names.iter().any(|name| DOES.contains(name) || reserves(name))
}

/// True for a stack that waits for a latch of InnoDB.
fn waits_for_latch(names: &[&str]) -> bool {
    names.iter().any(|name| LATCH_WAITS.contains(name))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::stack::ThreadState::{DiskWrite, Lock};

    use super::*;
    use crate::testing::Build;

    /// MySQL 9.7.
    const EXTENDS: &[&str] = &[
        "pwrite64",
        "os_file_write_func",
        "fil_space_extend",
        "mysqld+0x2bab000",
        "fsp_reserve_free_extents",
        "btr_cur_pessimistic_insert",
        "dispatch_command",
    ];
    const WAITS: &[&str] = &[
        "pthread_cond_wait",
        "sync_array_wait_event",
        "rw_lock_sx_lock_func",
        "btr_cur_search_to_nth_level",
        "dispatch_command",
    ];

    pub(crate) fn fires() -> Window {
        Build::busy("9.7.4")
            .variable("innodb_extend_and_initialize", "ON")
            .snapshots(&[(9, Lock, WAITS), (1, DiskWrite, EXTENDS)])
            .window()
    }

    /// A file that is extended while nobody waits.
    pub(crate) fn near_miss() -> Window {
        Build::busy("9.7.4").snapshots(&[(1, DiskWrite, EXTENDS)]).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("9.7.4").without_profile().window()
    }

    #[test]
    fn it_stands_before_the_index_lock_that_its_holder_keeps() {
        let diagnosis = crate::diagnose(&fires());
        let causes: Vec<_> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, [CAUSE.name, index_lock::CAUSE.name]);
        assert_eq!(
            diagnosis.findings[0].remedies[0].statement,
            "SET GLOBAL innodb_extend_and_initialize = OFF"
        );
        assert!(diagnosis.findings[0].root.as_ref().unwrap().stack.contains(&"fil_space_extend".to_owned()));
    }

    #[test]
    fn nobody_is_the_root_where_each_of_many_extends_a_little() {
        let window = Build::busy("9.7.4").snapshots(&[(9, Lock, WAITS), (3, DiskWrite, EXTENDS)]).window();
        let Outcome::Fired(finding) = evaluate(&window) else { panic!() };
        assert_eq!(finding.root, None);
    }
}
