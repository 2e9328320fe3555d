//! Packets that are larger than `max_allowed_packet`: the server ends the connection of each.

use spindoctor_model::number::{bytes, whole};
use spindoctor_model::{Evidence, Remedy, Window};

use super::remedies::advice;
use crate::causes::connection_churn::busiest_text;
use crate::connections;

/// What MySQL 8.0 comes with, bytes.
const USUAL: f64 = 67_108_864.0;

/// The largest that both servers take, bytes.
const LARGEST: f64 = 1_073_741_824.0;

/// How many times as large a limit is proposed where it is the usual one already. Chosen.
const TIMES: f64 = 4.0;

/// What the connections say of packets that are too large.
pub(super) struct Packets {
    /// `max_allowed_packet`, bytes.
    limit: Option<f64>,
    /// Connections a second that ended without a goodbye.
    aborted_per_s: f64,
    /// Connections made a second.
    made_per_s: f64,
}

impl Packets {
    pub(super) fn from_window(window: &Window) -> Self {
        Self {
            limit: window.variable_number("max_allowed_packet"),
            aborted_per_s: window.status_per_s("Aborted_clients").unwrap_or(0.0),
            made_per_s: window.status_per_s("Connections").unwrap_or(0.0),
        }
    }

    pub(super) fn why(&self) -> String {
        let limit = self.limit.map(|limit| format!(" of {}", bytes(limit))).unwrap_or_default();
        let ends = match self.aborted_per_s > 0.0 {
            true => format!(
                " {} connections a second end without a goodbye (Aborted_clients), of {} made.",
                whole(self.aborted_per_s),
                whole(self.made_per_s)
            ),
            false => String::new(),
        };
        format!(
            "The server reads no packet that is larger than max_allowed_packet{limit}: it answers with error 1153 and ends the connection, \
             and the client may see no more than that the server has gone away (2006, 2013).{ends} Who sends less is served as before."
        )
    }

    pub(super) fn evidence(&self, window: &Window) -> impl Iterator<Item = Evidence> {
        let aborted = (self.aborted_per_s > 0.0).then(|| {
            Evidence::new(
                "connections that end without a goodbye",
                self.aborted_per_s,
                "1/s",
                "SHOW GLOBAL STATUS Aborted_clients",
            )
        });
        let limit = self
            .limit
            .map(|limit| Evidence::new("max_allowed_packet", limit, "bytes", "SHOW GLOBAL VARIABLES"));
        let accounts = connections::accounts(window).unwrap_or_default();
        let who = (!accounts.is_empty())
            .then(|| Evidence::new("who connects", busiest_text(&accounts), "", "connections by account"));
        [aborted, limit, who].into_iter().flatten()
    }

    /// A larger limit, smaller packets, and who sends them.
    pub(super) fn remedies(&self, window: &Window) -> Vec<Remedy> {
        let current = self.limit.unwrap_or(0.0);
        let wanted = if current < USUAL { USUAL } else { (TIMES * current).min(LARGEST) };
        let raise = (current < LARGEST).then(|| Remedy {
            statement: format!("SET GLOBAL max_allowed_packet = {wanted:.0}"),
            why: "For sessions that begin then; those that are there keep their limit. Clients have a limit of their own: the same there."
                .into(),
            dynamic: true,
            risk: "Each session may take as much memory for a statement or a row; replicas need as much \
                   (replica_max_allowed_packet, slave_max_allowed_packet)."
                .into(),
            undo: match self.limit {
                Some(limit) => format!("SET GLOBAL max_allowed_packet = {limit:.0}"),
                None => "SET GLOBAL max_allowed_packet to what SELECT @@max_allowed_packet says before".into(),
            },
        });
        let smaller = advice(
            "Send less in one statement: fewer rows in one INSERT, documents in parts or in a store for files",
            "A packet below the limit is taken.",
            "A change of the application.",
        );
        let has_accounts = window.server.version.is_some_and(|version| version.mysql_at_least(8, 0, 0));
        let who = has_accounts.then(|| {
            advice(
                "SELECT USER, HOST, SUM_ERROR_RAISED, LAST_SEEN FROM performance_schema.events_errors_summary_by_account_by_error WHERE \
                 ERROR_NUMBER = 1153 AND SUM_ERROR_RAISED > 0 ORDER BY SUM_ERROR_RAISED DESC LIMIT 10",
                "It lists whose packets are refused. Their text is in no list: the server does not read it.",
                "It only reads.",
            )
        });
        raise.into_iter().chain([smaller]).chain(who).collect()
    }
}
