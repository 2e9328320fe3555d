//! How evenly connections are served: the transactions of each, as performance_schema counts them.
//!
//! A connection that did none in a block may rest or starve, and nothing here can distinguish the two: it is left out. So what is
//! said is of connections that were served at all, and pools of clients that do different work are uneven by themselves: only the
//! difference between two settings says something.

use std::collections::HashMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_model::Fairness;

/// Whether transactions are counted: by default from MySQL 8.0 on.
///
/// Cost: one row by its key.
pub(super) const IS_ON: &str =
    "SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'transaction'";

/// Transactions of each thread that there is.
///
/// Cost: a row for each connection and thread of the server, without a lock.
pub(super) const STATEMENT: &str = "SELECT THREAD_ID, COUNT_STAR \
     FROM performance_schema.events_transactions_summary_by_thread_by_event_name WHERE EVENT_NAME = 'transaction'";

/// The transactions of each thread since it began.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Served(HashMap<u64, u64>);

impl Served {
    pub(super) fn parse(rows: &Rows) -> Self {
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        Self(rows.iter().filter_map(|row| Some((number(row.at(0))?, number(row.at(1))?))).collect())
    }

    /// What connections did since, each by itself: of those that were there at both ends and did something. None where fewer
    /// than two did.
    pub(super) fn since(&self, earlier: &Self) -> Option<Fairness> {
        let grown = |(thread, now): (&u64, &u64)| now.checked_sub(*earlier.0.get(thread)?);
        let counts: Vec<u64> = self.0.iter().filter_map(grown).filter(|count| *count > 0).collect();
        if counts.len() < 2 {
            return None;
        }
        let all = counts.len() as f64;
        let mean = counts.iter().map(|count| *count as f64).sum::<f64>() / all;
        let variance = counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum::<f64>() / all;
        Some(Fairness {
            mean,
            sd: variance.sqrt(),
            least: counts.iter().min().copied(),
            most: counts.iter().max().copied(),
        })
    }
}

/// Why it is not known how evenly connections are served; none where it is.
pub(super) fn why_off(asked: Result<&Rows, &str>) -> Option<String> {
    let why = match asked {
        Err(why) => why.to_owned(),
        Ok(rows) => match rows.first().and_then(|row| row.at(0)) {
            Some("YES") => return None,
            Some(_) => "the instrument transaction is off".to_owned(),
            None => "this server counts no transactions by thread, or performance_schema is off".to_owned(),
        },
    };
    Some(format!("how evenly connections are served is not known: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, &str)]) -> Rows {
        let row =
            |(thread, count): &(&str, &str)| vec![Some((*thread).to_owned()), Some((*count).to_owned())];
        Rows::new(vec!["THREAD_ID".to_owned(), "COUNT_STAR".to_owned()], rows.iter().map(row).collect())
    }

    #[test]
    fn connections_that_did_something_are_compared_with_their_mean() {
        // 45 rests, 46 has gone, 47 came in between, and the server gave 48 to another connection.
        let before =
            Served::parse(&rows(&[("43", "10"), ("44", "10"), ("45", "7"), ("46", "1"), ("48", "90")]));
        let after =
            Served::parse(&rows(&[("43", "40"), ("44", "20"), ("45", "7"), ("47", "5"), ("48", "3")]));
        let fairness = after.since(&before).unwrap();
        assert_eq!(
            (fairness.mean, fairness.sd, fairness.least, fairness.most),
            (20.0, 10.0, Some(10), Some(30))
        );
        assert_eq!(before.since(&before), None, "nobody did anything");
        assert_eq!(Served::default().since(&before), None);
    }

    #[test]
    fn what_is_off_is_not_known() {
        let one = |cell: &str| Rows::new(vec!["ENABLED".to_owned()], vec![vec![Some(cell.to_owned())]]);
        assert_eq!(why_off(Ok(&one("YES"))), None);
        for off in [Ok(&one("NO")), Ok(&Rows::default()), Err("no permission")] {
            let why = why_off(off).unwrap();
            assert!(why.contains("is not known"), "{why}");
        }
    }
}
