//! innotop's screens of transactions (mode T), of locks (mode L) and of the last deadlock (mode D) as the parts of InnoDB's status that they
//! were made from.
//!
//! ```text
//! ID     User       Host        Txn Status  Time      Undo   Query Text
//! 20411  erp_batch  10.12.4.9   ACTIVE      01:11:40  41203
//! 23800  erp_web    10.12.1.15  LOCK WAIT      00:49      1  UPDATE stock SET qty = qty - 2 WHERE sku = 'K-117'
//!
//! ______ Deadlock Transactions ______
//! ID  Timestring           User  Host       Victim  Time   Undo  LStrcts  Query Text
//!  4  2023-03-04 10:11:12  app   10.0.0.7   Yes     00:00     0        3  DELETE FROM stock WHERE id = 7
//!
//! ______ Deadlock Locks ______
//! ID  Waiting  Mode  DB    Table  Index    Special          Ins Intent
//!  4        1  X     shop  stock  PRIMARY  rec but not gap           0
//!
//! ______ InnoDB Locks ______
//! ID      Type    Waiting  Wait   Active  Mode  DB    Table   Index    Ins Intent  Special
//! 20411   RECORD        1  00:41   01:11  X     shop  stock   PRIMARY           0  rec but not gap
//! 20377   RECORD        0  00:00   06:10  X     shop  stock   PRIMARY           0  rec but not gap
//! ```

/// Transactions and locks of a deadlock that are read.
const MOST: usize = 50;

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

/// The lines of a text, with each screen of locks but the last left out, and the last as a list of transactions with their locks.
pub(crate) fn with_locks(lines: Vec<String>) -> Vec<String> {
    let Some(last) = lines.iter().rposition(|line| is_head_of_screen(line)) else { return lines };
    let mut locks: Vec<ScreenLock> = Vec::new();
    let mut all = Vec::with_capacity(lines.len());
    let (mut place, mut in_list) = (None, false);
    for (at, line) in lines.into_iter().enumerate() {
        if is_head_of_screen(&line) {
            in_list = true;
            if at == last {
                place = Some(all.len());
            }
            continue;
        }
        match screen_lock(&line).filter(|_| in_list) {
            Some(lock) if at > last && locks.len() < MOST => locks.push(lock),
            Some(_) => {}
            None => {
                in_list &= line.trim().is_empty();
                all.push(line);
            }
        }
    }
    let place = place.unwrap_or(all.len());
    drop(all.splice(place..place, with_their_locks(&locks)));
    all
}

/// A lock of the screen, with the connection that has it or waits for it.
struct ScreenLock {
    id: u64,
    waits: bool,
    waited_s: u64,
    age_s: u64,
    /// As InnoDB prints it.
    text: String,
}

fn is_head_of_screen(line: &str) -> bool {
    line.split_whitespace().take(7).eq(["ID", "Type", "Waiting", "Wait", "Active", "Mode", "DB"])
}

fn screen_lock(line: &str) -> Option<ScreenLock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, "RECORD", waits, waited, age, mode, schema, table, index, intent, special @ ..] = &words[..]
    else {
        return None;
    };
    let is_set = |flag: &str| match flag {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    };
    let waits = is_set(waits)?;
    let special = if special.is_empty() { String::new() } else { format!(" locks {}", special.join(" ")) };
    let intent = if is_set(intent)? { " insert intention" } else { "" };
    let waiting = if waits { " waiting" } else { "" };
    let text = format!(
        "RECORD LOCKS space id 0 page no 0 n bits 0 index {index} of table `{schema}`.`{table}` trx id 0 lock_mode \
         {mode}{special}{intent}{waiting}"
    );
    Some(ScreenLock { id: id.parse().ok()?, waits, waited_s: seconds(waited)?, age_s: seconds(age)?, text })
}

/// Transactions as InnoDB prints them, each once, with their locks; nothing where there are none. The screen has their connections alone.
fn with_their_locks(locks: &[ScreenLock]) -> Vec<String> {
    if locks.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<String> = ["------------", "TRANSACTIONS", "------------"].map(str::to_owned).into();
    let mut named: Vec<u64> = Vec::new();
    for lock in locks {
        let ScreenLock { id, age_s, .. } = lock;
        if named.contains(id) {
            continue;
        }
        named.push(*id);
        let own = || locks.iter().filter(|other| other.id == *id);
        let wanted = own().find(|lock| lock.waits);
        let wait = if wanted.is_some() { "LOCK WAIT " } else { "" };
        all.push(format!("---TRANSACTION {id}, ACTIVE {age_s} sec"));
        all.push(format!(
            "{wait}2 lock struct(s), heap size 1136, {} row lock(s), undo log entries 0",
            own().count()
        ));
        all.push(format!("MySQL thread id {id}, OS thread handle 1, query id 1"));
        if let Some(wanted) = wanted {
            all.push(format!(
                "------- TRX HAS BEEN WAITING {} SEC FOR THIS LOCK TO BE GRANTED:",
                wanted.waited_s
            ));
            all.push(wanted.text.clone());
            all.push("------------------".to_owned());
        }
        all.extend(own().filter(|lock| !lock.waits).map(|lock| lock.text.clone()));
    }
    all
}

/// The lines of a text, with the last screen of a deadlock as InnoDB prints one, and without those before it.
pub(crate) fn with_deadlock(lines: Vec<String>) -> Vec<String> {
    let Some(last) = lines.iter().rposition(|line| is_head_of_parties(line)) else { return lines };
    let mut parties: Vec<Party> = Vec::new();
    let mut locks: Vec<PartyLock> = Vec::new();
    let mut all = Vec::with_capacity(lines.len());
    let mut place = None;
    let (mut in_parties, mut in_locks) = (false, false);
    for (at, line) in lines.into_iter().enumerate() {
        let is_head = is_head_of_parties(&line) || is_head_of_locks(&line);
        let is_title = line.starts_with('_') && line.contains(" Deadlock ");
        if at == last {
            place = Some(all.len());
        }
        if is_head || is_title {
            (in_parties, in_locks) = (is_head_of_parties(&line), is_head_of_locks(&line));
            continue;
        }
        let party = party(&line).filter(|_| in_parties);
        let lock = lock(&line).filter(|_| in_locks);
        let is_row = party.is_some() || lock.is_some();
        if at > last && parties.len() < MOST && locks.len() < MOST {
            parties.extend(party);
            locks.extend(lock);
        }
        if !is_row {
            in_parties &= line.trim().is_empty();
            in_locks &= line.trim().is_empty();
            all.push(line);
        }
    }
    let place = place.unwrap_or(all.len());
    drop(all.splice(place..place, printed(&parties, &locks)));
    all
}

/// A transaction of a deadlock.
struct Party {
    id: u64,
    /// When the deadlock was.
    time: String,
    user: String,
    host: String,
    is_victim: bool,
    statement: String,
}

/// A lock that it has, or waits for.
struct PartyLock {
    id: u64,
    waits: bool,
    /// As InnoDB prints it.
    text: String,
}

fn is_head_of_parties(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.by_ref().take(2).eq(["ID", "Timestring"]) && words.any(|word| word == "Victim")
}

fn is_head_of_locks(line: &str) -> bool {
    line.split_whitespace().take(5).eq(["ID", "Waiting", "Mode", "DB", "Table"])
}

fn party(line: &str) -> Option<Party> {
    let mut words = line.split_whitespace();
    let id = words.next()?.parse().ok()?;
    let time = format!("{} {}", words.next()?, words.next()?);
    let (user, host) = (words.next()?.to_owned(), words.next()?.to_owned());
    let is_victim = match words.next()? {
        "Yes" => true,
        "No" => false,
        _ => return None,
    };
    seconds(words.next()?)?;
    // Its changes and its locks, counted.
    let _undo: u64 = words.next()?.parse().ok()?;
    let _structs: u64 = words.next()?.parse().ok()?;
    Some(Party { id, time, user, host, is_victim, statement: words.collect::<Vec<_>>().join(" ") })
}

fn lock(line: &str) -> Option<PartyLock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, waits, mode, schema, table, index, special @ .., _intent] = &words[..] else { return None };
    let waits = match *waits {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    let special = if special.is_empty() { String::new() } else { format!(" locks {}", special.join(" ")) };
    let waiting = if waits { " waiting" } else { "" };
    let text = format!(
        "RECORD LOCKS space id 0 page no 0 n bits 0 index {index} of table `{schema}`.`{table}` trx id 0 lock_mode {mode}{special}{waiting}"
    );
    Some(PartyLock { id: id.parse().ok()?, waits, text })
}

/// A deadlock as InnoDB prints it; nothing of none.
fn printed(parties: &[Party], locks: &[PartyLock]) -> Vec<String> {
    let Some(first) = parties.first() else { return Vec::new() };
    let rule = "------------------------".to_owned();
    let mut all =
        vec![rule.clone(), "LATEST DETECTED DEADLOCK".to_owned(), rule, format!("{} 0x1", first.time)];
    for (party, number) in parties.iter().zip(1_u64..) {
        let Party { id, user, host, statement, .. } = party;
        all.push(format!("*** ({number}) TRANSACTION:"));
        all.push(format!("TRANSACTION {number}, ACTIVE 0 sec"));
        all.push(format!("MySQL thread id {id}, OS thread handle 1, query id 1 {host} {user} updating"));
        all.extend(Some(statement.clone()).filter(|statement| !statement.is_empty()));
        for (waits, heading) in
            [(false, "HOLDS THE LOCK(S):"), (true, "WAITING FOR THIS LOCK TO BE GRANTED:")]
        {
            let mut own = locks.iter().filter(|lock| lock.id == *id && lock.waits == waits).peekable();
            if own.peek().is_some() {
                all.push(format!("*** ({number}) {heading}"));
                all.extend(own.map(|lock| lock.text.clone()));
            }
        }
    }
    let victim = parties.iter().position(|party| party.is_victim);
    all.extend(victim.map(|at| format!("*** WE ROLL BACK TRANSACTION ({})", at + 1)));
    all
}

/// `01:11:40`, `00:49`
fn seconds(time: &str) -> Option<u64> {
    time.split(':').try_fold(0_u64, |all, part| all.checked_mul(60)?.checked_add(part.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;

    #[test]
    fn the_screen_of_a_deadlock_is_one_with_its_locks() {
        let screen = |statement: &str| {
            format!(
                "___________ Deadlock Transactions ___________\n\
                 ID  Timestring           User  Host       Victim  Time   Undo  LStrcts  Query Text\n \
                 4  2023-03-04 10:11:12  app   10.0.0.7   Yes     00:00     0        3  {statement}\n \
                 9  2023-03-04 10:11:12  app   10.0.0.8   No      00:00     1        2  UPDATE stock SET n = 2 WHERE no = 'secret'\n\n\
                 ___________ Deadlock Locks ___________\n\
                 ID  Waiting  Mode  DB    Table  Index    Special          Ins Intent\n \
                 4        1  X     shop  stock  by_no    rec but not gap           0\n \
                 9        0  X     shop  stock  by_no                              0\n"
            )
        };
        let text = format!("{}\n{}", screen("SELECT 1"), screen("DELETE FROM stock WHERE id = 7"));
        let parts = crate::recognise("x", &text);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::InnodbStatus], "{parts:?}");
        let says = parts[0].says.join("; ");
        assert!(
            says.contains("DELETE FROM stock WHERE id = ?") && says.contains("(1) was rolled back"),
            "{says}"
        );
        assert!(
            says.contains("waited for a lock on shop.stock, index by_no: X locks rec but not gap"),
            "{says}"
        );
        assert!(!says.contains("secret") && !says.contains("SELECT"), "{says}");
        let other = vec!["ID Timestring".to_owned()];
        assert_eq!(with_deadlock(other.clone()), other);
    }

    #[test]
    fn the_screen_of_locks_names_who_has_the_row() {
        let screen = "[RO] Locks (? for help)      db7, 3+01:02:03, InnoDB 2s :-), 90 QPS, 41/8/1 con/run/cac thds\n\n\
                      ____________________ InnoDB Locks ____________________\n\
                      ID      Type    Waiting  Wait   Active  Mode  DB    Table   Index    Ins Intent  Special\n\
                      811     RECORD        1  00:31  00:33   X     mail  queue   PRIMARY           0  rec but not gap\n\
                      812     RECORD        1  00:20  00:20   X     mail  queue   PRIMARY           0  rec but not gap\n\
                      790     RECORD        0  00:00  12:05   X     mail  queue   PRIMARY           0  rec but not gap\n";
        let window = crate::window(&crate::recognise("x", screen));
        let findings = spindoctor_rules::diagnose(&window).findings;
        let first = findings.first().unwrap_or_else(|| panic!("no finding"));
        assert_eq!(first.cause, "row-lock-pileup", "{findings:?}");
        assert!(first.headline.contains("790"), "{}", first.headline);
        let other = vec!["ID Type Waiting".to_owned()];
        assert_eq!(with_locks(other.clone()), other);
    }

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
