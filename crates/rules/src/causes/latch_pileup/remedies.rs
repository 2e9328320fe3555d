//! What to do about the end of the waits.

use spindoctor_model::innodb_status::SemaphoreWait;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Remedy, Window};

/// The stacks of all threads, before anything else.
pub(super) fn stacks_first(window: &Window) -> Remedy {
    let (statement, risk) = if window.is_given() {
        (
            "gdb -p PID -batch -ex 'thread apply all bt' > stacks.txt, before anything else is tried",
            "The server is stopped while gdb reads, for seconds.",
        )
    } else {
        (
            "spindoctor stacks > stacks.txt, on the server's host and before anything else is tried",
            "It only reads; no thread of the server is stopped.",
        )
    };
    Remedy {
        statement: statement.into(),
        why: "What the last of the chain does is in its stack, and in no status.".into(),
        dynamic: true,
        risk: risk.into(),
        undo: String::new(),
    }
}

/// What frees those behind the thread at the end of a chain.
pub(super) fn for_a_chain(
    window: &Window,
    waits: &[&SemaphoreWait],
    session: Option<&ServerThread>,
) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let statement =
        session.and_then(|session| session.statement.as_deref()).unwrap_or_default().to_ascii_lowercase();
    let is_old = window.server.version.is_none_or(|version| !version.mysql_at_least(8, 0, 0));
    let reads_statistics =
        ["information_schema.tables", "information_schema.statistics", "show table status", "show index"];
    if is_old && reads_statistics.iter().any(|table| statement.contains(table)) {
        remedies.push(Remedy {
            statement: "SET GLOBAL innodb_stats_on_metadata = OFF".into(),
            why: "The statement at the end of the chain asks information_schema for the sizes of all tables: with ON InnoDB opens each \
                  and counts its statistics again, under its dictionary's latch. Ask rarely, and not from a monitor."
                .into(),
            dynamic: true,
            risk: "Statistics are as old as the last ANALYZE TABLE or the server's own update.".into(),
            undo: "SET GLOBAL innodb_stats_on_metadata = ON".into(),
        });
    }
    if waits.iter().any(|wait| wait.created_file.starts_with("btr0sea")) {
        remedies.push(Remedy {
            statement: "SET GLOBAL innodb_adaptive_hash_index = OFF".into(),
            why: "The latch at the end of the chain is that of the adaptive hash index: without the index nobody wants it. It helps \
                  after a restart: now the statement would wait for the same latch."
                .into(),
            dynamic: true,
            risk: "Lookups by equal keys become slower where the index served them well.".into(),
            undo: "SET GLOBAL innodb_adaptive_hash_index = ON".into(),
        });
    }
    remedies.push(stacks_first(window));
    remedies
}

/// What frees a server of which threads never go on.
pub(super) fn for_a_defect() -> Vec<Remedy> {
    vec![
        Remedy {
            statement: "gdb -p PID -batch -ex 'thread apply all bt' > stacks.txt, then restart the server".into(),
            why: "What waits so can never go on, and no KILL reaches it. Without the stacks the defect cannot be found.".into(),
            dynamic: true,
            risk: "The server recovers as after a crash; a stop in order does not come to an end.".into(),
            undo: String::new(),
        },
        Remedy {
            statement: "Report it to those who maintain the server, with the stacks and this text".into(),
            why: "Latches are taken in a fixed order: this is a defect of the server, and a later version may have it mended."
                .into(),
            dynamic: true,
            ..Remedy::default()
        },
    ]
}
