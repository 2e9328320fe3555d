//! `performance_schema.metadata_locks`: who holds and who wants the tables that somebody waits for.

use spindoctor_model::mysql::MetadataLock;
use spindoctor_model::{ServerSample, ServerVersion, Unavailable};

use super::rows::Rows;
use super::source::{Plan, Source, Variables, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Locks read at most; granted ones stand first, so that it is waiters that are left out.
const LIMIT: usize = 2000;

/// Only objects with a pending lock: on a server where nobody waits the answer is empty. spindoctor's own locks, all on
/// tables of performance_schema, are never pending nor waited for. The join with the instrument's switch distinguishes
/// "nobody waits" from "nobody counts".
const SQL: &str = "SELECT i.ENABLED, m.*, t.PROCESSLIST_ID FROM \
    (SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl') AS i \
    LEFT JOIN (SELECT l.OBJECT_TYPE, l.OBJECT_SCHEMA, l.OBJECT_NAME, l.LOCK_TYPE, l.LOCK_STATUS, l.OWNER_THREAD_ID \
     FROM (SELECT DISTINCT OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME \
           FROM performance_schema.metadata_locks WHERE LOCK_STATUS = 'PENDING') AS p \
     JOIN performance_schema.metadata_locks AS l ON l.OBJECT_TYPE = p.OBJECT_TYPE \
      AND l.OBJECT_SCHEMA <=> p.OBJECT_SCHEMA AND l.OBJECT_NAME <=> p.OBJECT_NAME \
     WHERE l.LOCK_STATUS IN ('GRANTED', 'PENDING') \
     ORDER BY l.LOCK_STATUS LIMIT 2000) AS m ON 1 = 1 \
    LEFT JOIN performance_schema.threads AS t ON t.THREAD_ID = m.OWNER_THREAD_ID";

/// The source.
///
/// Cost: reads one slot of memory for each metadata lock, without any lock, once where nobody waits
/// and twice where somebody does: about 1 ms for 1,000 locks. Safe to ask every second.
pub const SOURCE: Source = Source {
    name: "performance_schema.metadata_locks",
    help: "who holds and who wants the tables that somebody waits for",
    cost: "reads memory without a lock, about 1 ms for 1,000 metadata locks",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(2, 30),
    plan,
    parse: |rows, answer, sample| match metadata_locks(rows) {
        Ok(locks) => {
            note_if_cut("performance_schema.metadata_locks", rows, LIMIT, sample);
            sample.metadata_locks = answer.reading(locks);
        }
        Err(why) => sample.metadata_locks.fail(why),
    },
    reading: ServerSample::field("metadata_locks"),
};

fn plan(version: ServerVersion, variables: Variables<'_>) -> Plan {
    // MySQL 5.7 (WL#5879), MariaDB 10.5.2 (MDEV-6114).
    let has_table = version.mysql_at_least(5, 7, 0) || version.mariadb_at_least(10, 5, 2);
    match performance_schema_off(version, variables) {
        _ if version.is_mariadb() && !has_table => Plan::Elsewhere,
        _ if !has_table => Plan::Cannot(Unavailable::because(format!(
            "{version} cannot list metadata locks (5.7 and later can)"
        ))),
        Some(_) if version.is_mariadb() => Plan::Elsewhere,
        Some(why) => Plan::Cannot(why),
        None => Plan::Ask(SQL),
    }
}

fn metadata_locks(rows: &Rows) -> Result<Vec<MetadataLock>, Unavailable> {
    if rows.first().and_then(|row| row.text("ENABLED")) != Some("YES") {
        return Err(Unavailable::because(
            "metadata locks are not instrumented (wait/lock/metadata/sql/mdl is off)",
        )
        .unlock(
            "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' \
                 WHERE NAME = 'wait/lock/metadata/sql/mdl'",
        ));
    }
    Ok(listed(rows))
}

/// The locks of a list of `performance_schema.metadata_locks`. In a join with `performance_schema.threads` that somebody else wrote the
/// owner may stand as `THREAD_ID`, and the object's type may be left out.
pub fn listed(rows: &Rows) -> Vec<MetadataLock> {
    rows.iter()
        .filter(|row| row.text("LOCK_STATUS").is_some())
        .map(|row| MetadataLock {
            object_type: row.text("OBJECT_TYPE").unwrap_or("TABLE").to_owned(),
            schema: row.string("OBJECT_SCHEMA"),
            name: row.string("OBJECT_NAME"),
            lock_type: row.string("LOCK_TYPE"),
            granted: row.text("LOCK_STATUS") == Some("GRANTED"),
            owner_internal_id: row.number("OWNER_THREAD_ID").or_else(|| row.number("THREAD_ID")),
            owner_connection_id: row.number("PROCESSLIST_ID"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    const HEAD: &str = "ENABLED\tOBJECT_TYPE\tOBJECT_SCHEMA\tOBJECT_NAME\tLOCK_TYPE\tLOCK_STATUS\tOWNER_THREAD_ID\tPROCESSLIST_ID\n";

    #[test]
    fn shows_granted_from_pending_and_names_the_owner() {
        let text = format!(
            "{HEAD}YES\tTABLE\tsbtest\tsbtest1\tSHARED_READ\tGRANTED\t52\t12\n\
             YES\tTABLE\tsbtest\tsbtest1\tEXCLUSIVE\tPENDING\t60\tNULL\n"
        );
        let locks = metadata_locks(&fixture::tabbed(&text)).unwrap();
        let summary = |lock: &MetadataLock| (lock.granted, lock.owner_internal_id, lock.owner_connection_id);
        assert_eq!(summary(&locks[0]), (true, Some(52), Some(12)));
        assert_eq!(summary(&locks[1]), (false, Some(60), None));
        assert!(SQL.contains(&format!("LIMIT {LIMIT})")));
    }

    #[test]
    fn a_join_with_threads_names_the_owner_in_its_own_way() {
        let text = "OBJECT_SCHEMA\tOBJECT_NAME\tLOCK_TYPE\tLOCK_STATUS\tTHREAD_ID\tPROCESSLIST_ID\n\
                    shop\tstock\tSHARED_READ\tGRANTED\t52\t12\n";
        let lock = &listed(&fixture::tabbed(text))[0];
        assert_eq!((lock.object_type.as_str(), lock.owner_internal_id), ("TABLE", Some(52)));
        assert_eq!(lock.owner_connection_id, Some(12));
    }

    #[test]
    fn nobody_waits_is_an_answer_and_nobody_counts_is_not() {
        let text = |enabled: &str| format!("{HEAD}{enabled}\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\tNULL\n");
        assert_eq!(metadata_locks(&fixture::tabbed(&text("YES"))), Ok(vec![]));
        let off = metadata_locks(&fixture::tabbed(&text("NO"))).unwrap_err();
        assert!(off.unlock.unwrap().contains("wait/lock/metadata/sql/mdl"));
    }

    #[test]
    fn mariadb_without_performance_schema_leaves_it_to_its_plugin() {
        assert!(matches!(plan(ServerVersion::parse("10.11.19-MariaDB", "").unwrap(), None), Plan::Elsewhere));
        assert!(matches!(plan(ServerVersion::parse("5.6.21", "").unwrap(), None), Plan::Cannot(_)));
    }
}
