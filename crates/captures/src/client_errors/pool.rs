//! What a client's own pool counts of its connections when it has none left: `(total=10, active=10, idle=0, waiting=31)` of HikariCP,
//! `[size:100; busy:100; idle:0; lastwait:30000]` of Tomcat.

use super::{POOL, entry, meaning};

/// Characters of the counts that are shown.
const LONGEST: usize = 120;

/// Drivers of servers of other kinds, to which a pool's connections may lead as well.
const OTHERS: [&str; 6] =
    ["org.postgresql", "psycopg", "PG::", "oracle.jdbc", "com.microsoft.sqlserver", "org.mongodb"];
const OWN: [&str; 4] = ["mysql", "MySQL", "mariadb", "MariaDB"];

/// Adds what a pool counted to what is said of it. Of one of another kind of server nothing is said.
pub(crate) fn add_counts(says: &mut Vec<String>, text: &str) {
    let names = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if !says.iter().any(|said| said.starts_with(POOL)) {
        return;
    }
    match names(&OTHERS) && !names(&OWN) {
        true => says.retain(|said| !said.starts_with(POOL)),
        false => says.extend(counts(text)),
    }
}

/// The counts of the last such error, in a sentence.
fn counts(text: &str) -> Option<String> {
    let is_of_pool = |line: &str| entry(line).is_some_and(|at| meaning(at) == POOL);
    let last = text.lines().rev().find_map(|line| of_line(line).filter(|_| is_of_pool(line)))?;
    Some(format!("the pool counted then: {last}"))
}

fn of_line(line: &str) -> Option<&str> {
    let is_count = |c: char| c.is_ascii_alphanumeric() || " =:,;".contains(c);
    [("(total=", ')'), ("[size:", ']')].into_iter().find_map(|(begin, end)| {
        let at = line.find(begin)? + 1;
        let (counts, _) = line[at..].split_once(end)?;
        (counts.len() <= LONGEST && counts.chars().all(is_count)).then_some(counts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_empty_says_so_in_each_program_s_words_with_its_counts() {
        for line in [
            "java.sql.SQLTransientConnectionException: shop - Connection is not available, request timed out after 30001ms (total=8, active=8, idle=0, \
             waiting=31)",
            "sqlalchemy.exc.TimeoutError: QueuePool limit of size 5 overflow 10 reached, connection timed out, timeout 30.00",
            "ActiveRecord::ConnectionTimeoutError (could not obtain a connection from the pool within 5.000 seconds (waited 5.004 seconds); all pooled \
             connections were in use)",
            "org.apache.tomcat.jdbc.pool.PoolExhaustedException: [http-7] Timeout: Pool empty. Unable to fetch a connection in 30 seconds, none \
             available[size:100; busy:100; idle:0; lastwait:30000].",
            "KnexTimeoutError: Knex: Timeout acquiring a connection. The pool is probably full. Are you missing a .transacting(trx) call?",
        ] {
            let parts = crate::recognise("x", line);
            assert_eq!(parts[0].kind, crate::Kind::ErrorLog, "{parts:#?}");
            assert!(parts[0].says[0].starts_with(POOL), "{:?}", parts[0].says);
            assert!(parts[0].moments.is_empty());
        }
        let hikari = "shop - Connection is not available, request timed out after 9ms (total=8, active=8, idle=0, waiting=31)";
        assert_eq!(
            counts(hikari).as_deref(),
            Some("the pool counted then: total=8, active=8, idle=0, waiting=31")
        );
        let parts = crate::recognise(
            "x",
            &format!("{hikari}\nCaused by: org.postgresql.util.PSQLException: refused\n"),
        );
        assert!(parts.iter().all(|part| part.says.is_empty()), "{parts:#?}");
        for line in [
            "(total=8, active=8)",
            "shop - Connection is not available, request timed out after 9ms (total='x')",
        ] {
            assert_eq!(counts(line), None, "{line}");
        }
    }
}
