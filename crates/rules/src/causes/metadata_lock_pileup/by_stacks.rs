//! What stacks alone show: that sessions wait for a metadata lock, and neither for which table nor behind whom.

use spindoctor_model::{Finding, Remedy, ServerVersion, Severity, Window, number};

use super::{CAUSE, connections_exhausted, thread_pool_starved};
use crate::rank::severity;
use crate::time_model::InClasses;

/// The finding of stacks that somebody captured without a list of the sessions.
pub(super) fn finding(window: &Window, account: &InClasses<'_>) -> Finding {
    let waiters = account.sessions.round().max(1.0);
    let is_one = waiters < 2.0;
    // One client is blocked, not the server.
    let most = if is_one { Severity::Warning } else { Severity::Critical };
    let headline = format!(
        "{} for a metadata lock: by {}",
        number::counted(waiters as u64, "session waits", "sessions wait"),
        if is_one { "its stack" } else { "their stacks" }
    );
    account
        .draft(&CAUSE, headline)
        .severity(severity(account.share).min(most))
        .why(format!(
            "{} do not say: performance_schema.metadata_locks and SHOW FULL PROCESSLIST of the same moment do. As a rule one session \
             holds the table in an open transaction, a DDL waits for it, and all others queue behind the DDL. Who waits for the global \
             read lock or a backup lock stands in the same functions; the state in the process list says which it is.",
            if is_one {
                "It stands in the functions of the metadata locks. Which table it wants and who holds it stacks"
            } else {
                "They stand in the functions of the metadata locks. Which table they want and who holds it the stacks"
            }
        ))
        .remedy(Remedy {
            statement: list_of_locks(window).into(),
            why: "While it lasts: the list of locks names the table and who holds it (GRANTED), and the process list the DDL that waits. \
                  KILL the holder, or the DDL."
                .into(),
            dynamic: true,
            risk: "They only read. KILL rolls the open transaction of its connection back.".into(),
            undo: String::new(),
        })
        .explains(&[connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name])
        .finding()
}

/// The statements that show who holds the table.
fn list_of_locks(window: &Window) -> &'static str {
    if window.server.version.is_some_and(ServerVersion::is_mariadb) {
        return "SHOW FULL PROCESSLIST; INSTALL SONAME 'metadata_lock_info'; SELECT * FROM information_schema.METADATA_LOCK_INFO";
    }
    "SHOW FULL PROCESSLIST; SELECT OBJECT_SCHEMA, OBJECT_NAME, LOCK_TYPE, LOCK_STATUS, PROCESSLIST_ID FROM \
     performance_schema.metadata_locks JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID"
}
