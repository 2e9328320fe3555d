//! innotop's screen of transactions (mode T) as the part of InnoDB's status that it was made from.
//!
//! ```text
//! ID     User       Host        Txn Status  Time      Undo   Query Text
//! 20411  erp_batch  10.12.4.9   ACTIVE      01:11:40  41203
//! 23800  erp_web    10.12.1.15  LOCK WAIT      00:49      1  UPDATE stock SET qty = qty - 2 WHERE sku = 'K-117'
//! ```

/// The lines of a text, with each such screen but the last left out, and the last as a list of transactions.
pub(crate) fn with_transactions(lines: Vec<String>) -> Vec<String> {
    let Some(last) = lines.iter().rposition(|line| is_head(line)) else { return lines };
    let mut all = Vec::with_capacity(lines.len());
    let mut in_list = false;
    for (at, line) in lines.into_iter().enumerate() {
        if is_head(&line) {
            in_list = true;
            if at == last {
                all.extend(["------------", "TRANSACTIONS", "------------"].map(str::to_owned));
            }
            continue;
        }
        match transaction(&line).filter(|_| in_list) {
            Some(transaction) if at > last => all.extend(transaction),
            Some(_) => {}
            None => {
                in_list &= line.trim().is_empty();
                all.push(line);
            }
        }
    }
    all
}

fn is_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["ID", "User"]) && line.contains("Txn Status") && line.contains("Time")
}

/// A row as InnoDB prints a transaction. It shows no locks: who has changed rows has some.
fn transaction(line: &str) -> Option<Vec<String>> {
    let mut words = line.split_whitespace();
    let id: u64 = words.next()?.parse().ok()?;
    let (user, host) = (words.next()?, words.next()?);
    let state = words.next()?;
    let waits = state == "LOCK";
    if waits && words.next() != Some("WAIT") || !waits && state != "ACTIVE" {
        return None;
    }
    let age_s = seconds(words.next()?)?;
    let undo: u64 = words.next()?.parse().ok()?;
    let statement = words.collect::<Vec<_>>().join(" ");
    let wait = if waits { "LOCK WAIT " } else { "" };
    let rows = if waits { 1 } else { undo };
    let mut all = vec![format!("---TRANSACTION {id}, ACTIVE {age_s} sec")];
    if rows > 0 {
        all.push(format!(
            "{wait}2 lock struct(s), heap size 1136, {rows} row lock(s), undo log entries {undo}"
        ));
    }
    let does = if statement.is_empty() { "" } else { " updating" };
    all.push(format!("MySQL thread id {id}, OS thread handle 1, query id 1 {host} {user}{does}"));
    all.extend(Some(statement).filter(|statement| !statement.is_empty()));
    if waits {
        all.push(format!("------- TRX HAS BEEN WAITING {age_s} SEC FOR THIS LOCK TO BE GRANTED:"));
    }
    Some(all)
}

/// `01:11:40`, `00:49`
fn seconds(time: &str) -> Option<u64> {
    time.split(':').try_fold(0_u64, |all, part| all.checked_mul(60)?.checked_add(part.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_screen_is_a_list_of_transactions() {
        let head = "ID     User       Host        Txn Status  Time      Undo   Query Text";
        let screen = format!(
            "{head}\n20411  erp_batch  10.12.4.9   ACTIVE      01:11:40  41203\n\
             23800  erp_web    10.12.1.15  LOCK WAIT      00:49      1  UPDATE stock SET qty = 2"
        );
        let lines = format!("{screen}\n\n(10 seconds later)\n{screen}");
        let read = with_transactions(lines.lines().map(str::to_owned).collect());
        assert_eq!(read.iter().filter(|line| line.starts_with("---TRANSACTION ")).count(), 2, "{read:#?}");
        assert!(read.contains(&"---TRANSACTION 20411, ACTIVE 4300 sec".to_owned()), "{read:#?}");
        assert!(read.contains(&"(10 seconds later)".to_owned()));
        let other = vec!["ID User".to_owned()];
        assert_eq!(with_transactions(other.clone()), other);
    }
}
