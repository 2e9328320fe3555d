//! The error with which clients give up their wait for a row (1205), where nothing else shows who waits.

use spindoctor_model::{Finding, Remedy, TroubleKind, Window};

use super::CAUSE;
use super::remedies::shorter_timeout;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// What clients printed last. It does not say how many others waited, or for whom.
pub(super) fn of_clients(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::LockTimeout)?;
    let look = Remedy {
        statement: "While statements wait: SELECT * FROM sys.innodb_lock_waits\\G (MariaDB, and MySQL before 5.7: SHOW ENGINE INNODB STATUS\\G and \
                    information_schema.INNODB_TRX), or spindoctor locks"
            .into(),
        why: "It names the connection that has the row and what it does: most often it is idle in an open transaction, or runs one large \
              change. KILL of that connection lets the others go on."
            .into(),
        dynamic: true,
        risk: "Looking is safe; KILL rolls the transaction of that connection back.".into(),
        undo: String::new(),
    };
    let commit = Remedy {
        statement: "Commit before the client waits for anything else (a user, another service); change rows in small transactions; give the \
                    UPDATE or DELETE an index, so that it locks fewer rows"
            .into(),
        why: "A row stays locked until its transaction ends.".into(),
        dynamic: true,
        risk: "A change of the application or its tables.".into(),
        undo: String::new(),
    };
    let draft = Draft::new(&CAUSE, WARNING_FROM, "Statements waited for a row's lock until their time was over (error 1205)")
        .why("Another transaction had the row for longer than innodb_lock_wait_timeout (50 s unless it is set). The statement was rolled back, and \
              its transaction is still open with the locks that it has: the client has to roll it back or to go on. A wait for a metadata lock \
              ends with the same error, after lock_wait_timeout.");
    let draft = draft.evidence_all(logged::evidence(trouble, times).into_iter());
    Some(draft.remedy(look).remedy(commit).remedies(shorter_timeout(window)).finding())
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{LoggedTrouble, Severity};

    use super::*;

    #[test]
    fn the_error_that_clients_print_says_how_to_find_who_has_the_row() {
        let line = "ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction".to_owned();
        let trouble =
            LoggedTrouble { kind: TroubleKind::LockTimeout, times: 4, line, ..LoggedTrouble::default() };
        let all = crate::diagnose(&Window { error_log: vec![trouble], ..Window::default() }).findings;
        assert_eq!(all.len(), 1, "{all:#?}");
        assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning));
        assert!(all[0].remedies[0].statement.contains("sys.innodb_lock_waits\\G"), "{:?}", all[0].remedies);
    }
}
