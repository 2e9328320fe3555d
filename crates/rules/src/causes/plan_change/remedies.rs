//! What to do about a plan that is another one, by the reason.

use spindoctor_model::Remedy;
use spindoctor_model::plan_now::{Index, PlanNow, TableName};

use super::meaning::{Meaning, Reason, rows_of, serves};
use crate::sessions::shortened;

/// The best first.
pub(super) fn remedies(meaning: &Meaning<'_>, statement: &str) -> Vec<Remedy> {
    let explain = explain(statement);
    match (meaning.reason, meaning.plan) {
        (Reason::Hidden(index), Some(plan)) => vec![give_back(meaning, &plan.table, index), explain],
        (Reason::NoIndex, Some(plan)) => vec![add_index(&plan.table, &meaning.columns), explain],
        (Reason::NewStatistics(_), Some(plan)) => {
            let mut remedies = vec![analyze(&quoted(&plan.table), NEW_STATISTICS)];
            remedies.extend(other_index(meaning, plan).map(|index| pin(&plan.table, index)));
            remedies.push(explain);
            remedies
        }
        (Reason::OtherValues(_), Some(plan)) => {
            let mut remedies: Vec<Remedy> =
                used_index(meaning, plan).map(|index| values(plan, index)).into_iter().collect();
            remedies.push(explain);
            remedies
        }
        _ => {
            let table = spindoctor_sql::first_table(statement);
            let quoted_table = table.as_deref().map(quoted_name);
            let mut remedies = vec![explain];
            remedies.extend(quoted_table.as_deref().filter(|_| meaning.is_scan).map(hidden_indexes));
            remedies.push(match &quoted_table {
                Some(table) => analyze(table, WHATEVER),
                None => analyze("of its tables", WHATEVER),
            });
            remedies
        }
    }
}

fn explain(statement: &str) -> Remedy {
    Remedy {
        statement: match statement {
            "" => "SHOW FULL PROCESSLIST; then EXPLAIN of the statement that stands in it again and again"
                .to_owned(),
            statement => format!("EXPLAIN {}", shortened(statement)),
        },
        why: "It shows which index the statement uses now, and which it could use.".into(),
        dynamic: true,
        risk: "None: EXPLAIN reads statistics only.".into(),
        undo: "Nothing to undo.".into(),
    }
}

/// Where to look for an index that nobody may use.
fn hidden_indexes(table: &str) -> Remedy {
    Remedy {
        statement: format!("SHOW INDEX FROM {table}"),
        why: "Its column Visible (MySQL 8.0) or Ignored (MariaDB 10.6) names an index that the optimizer may not use; one that is \
              not listed was dropped. Then ALTER TABLE .. ALTER INDEX .. VISIBLE (NOT IGNORED), or CREATE INDEX."
            .into(),
        dynamic: true,
        risk: "Looking costs nothing; making an index visible takes a metadata lock for an instant.".into(),
        undo: "ALTER TABLE .. ALTER INDEX .. INVISIBLE (IGNORED)".into(),
    }
}

const WHATEVER: &str =
    "Where no index is missing, the statistics mislead the optimizer: it takes them again.";
const NEW_STATISTICS: &str = "It computes the statistics again, from other pages. Where they mislead again, the table wants more sample \
                              pages (ALTER TABLE .. STATS_SAMPLE_PAGES).";

fn analyze(table: &str, why: &str) -> Remedy {
    Remedy {
        statement: format!("ANALYZE TABLE {table}"),
        why: why.into(),
        dynamic: true,
        risk: "Other plans may change, too; before MySQL 8.0.24 new statements queue behind long ones on the table.".into(),
        undo: "None; FORCE INDEX pins a plan whatever the statistics say.".into(),
    }
}

fn give_back(meaning: &Meaning<'_>, table: &TableName, index: &Index) -> Remedy {
    let alter = format!("ALTER TABLE {} ALTER INDEX {}", quoted(table), quoted_name(&index.name));
    Remedy {
        statement: format!("{alter} {}", meaning.hidden.show),
        why: format!("The optimizer may use {} again, from the next execution on.", index.name),
        dynamic: true,
        risk: "It takes a metadata lock for an instant: it waits for transactions that used the table, and new statements on the table \
               queue behind it meanwhile. Other plans may use the index, too."
            .into(),
        undo: format!("{alter} {}", meaning.hidden.hide),
    }
}

/// With one column it is plain which index is wanted; of several their order depends on what the statement does with them.
fn add_index(table: &TableName, columns: &[String]) -> Remedy {
    let quoted_table = quoted(table);
    match columns {
        [column] => Remedy {
            statement: format!("ALTER TABLE {quoted_table} ADD INDEX ({})", quoted_name(column)),
            why: "The statement finds its rows by it. Where another server still has the index, SHOW CREATE TABLE there says how it was \
                  made."
                .into(),
            dynamic: true,
            risk: "It reads the table whole and takes disk, with a metadata lock for an instant at both ends; on a replica it may delay \
                   what follows."
                .into(),
            undo: "DROP INDEX, when it was INVISIBLE (IGNORED) for a while and nobody missed it.".into(),
        },
        _ => Remedy {
            statement: format!("SHOW CREATE TABLE {quoted_table}"),
            why: format!(
                "On a server where the statement is fast, it shows the index that is missing here. One for this statement begins with a \
                 column that it compares: {}; those that it compares by = come first.",
                columns.join(", ")
            ),
            dynamic: true,
            risk: "Looking costs nothing. Adding an index reads the table whole and takes disk.".into(),
            undo: "Nothing to undo.".into(),
        },
    }
}

/// The index that the plan reads the table by.
fn key(plan: &PlanNow) -> Option<&str> {
    let mut lines = plan.explained.value()?.iter();
    // A table is called as the statement calls it: of one alone it is no question which.
    match (lines.next(), lines.next()) {
        (Some(line), None) => line.key.as_deref(),
        _ => None,
    }
}

/// An index that serves the statement, and by which it does not read: the one with the most values.
fn other_index<'a>(meaning: &Meaning<'_>, plan: &'a PlanNow) -> Option<&'a Index> {
    let used = key(plan);
    let others = plan.indexes.value()?.iter().filter(|index| {
        !index.is_hidden && Some(index.name.as_str()) != used && serves(index, &meaning.columns) > 0
    });
    others.max_by_key(|index| index.cardinality)
}

fn pin(table: &TableName, index: &Index) -> Remedy {
    Remedy {
        statement: format!(
            "FORCE INDEX ({}) behind {} in the statement",
            quoted_name(&index.name),
            quoted_name(&table.name)
        ),
        why: "It pins the plan, whatever the statistics say.".into(),
        dynamic: true,
        risk: "The index is used for all values then, also for those for which another plan is better."
            .into(),
        undo: "Take the hint out of the statement.".into(),
    }
}

/// The index that the statement reads by; where it scans, one that serves it.
fn used_index<'a>(meaning: &Meaning<'_>, plan: &'a PlanNow) -> Option<&'a Index> {
    let indexes = plan.indexes.value()?;
    let used = key(plan).and_then(|key| indexes.iter().find(|index| index.name == key));
    let serves_it = |index: &&Index| !index.is_hidden && serves(index, &meaning.columns) > 0;
    used.filter(serves_it).or_else(|| indexes.iter().find(serves_it))
}

fn values(plan: &PlanNow, index: &Index) -> Remedy {
    let column = index.columns.first().map(|column| quoted_name(column)).unwrap_or_default();
    let rows = rows_of(&plan.statistics).map(|rows| format!(": {rows}")).unwrap_or_default();
    Remedy {
        statement: format!(
            "SELECT {column}, COUNT(*) FROM {} GROUP BY {column} ORDER BY COUNT(*) DESC LIMIT 10",
            quoted(&plan.table)
        ),
        why: "It shows the values that most rows have: a statement that asks for them reads as many. Have the application ask for fewer \
              rows at once, or give the statement an index with all of its columns."
            .into(),
        dynamic: true,
        risk: format!("It reads the index {} whole, once{rows}.", index.name),
        undo: "Nothing to undo.".into(),
    }
}

fn quoted(table: &TableName) -> String {
    match table.schema.as_str() {
        "" => quoted_name(&table.name),
        schema => format!("{}.{}", quoted_name(schema), quoted_name(&table.name)),
    }
}

/// A name between backticks.
fn quoted_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
