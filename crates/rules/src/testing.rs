//! Windows for tests: a healthy busy server, and the ways to spoil it.

mod healthy;
mod host;
mod server;
mod stacks;

use spindoctor_model::mysql::{ServerThread, Transaction};
use spindoctor_model::{
    Finding, HostSample, LoggedTrouble, NoSession, NoSessionKind, Reading, ServerSample, TroubleKind,
    Unavailable, Window,
};

/// Seconds that a built window covers, with a sample at each.
pub(crate) const SECONDS: usize = 10;

/// Rows of one execution of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) examined: f64,
    pub(crate) sent: f64,
}

/// A window in the making.
pub(crate) struct Build(Window);

/// An answer of that time.
pub(crate) fn answer<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 1.0, value }
}

/// The findings of an error log that ends with these.
pub(crate) fn of_log(troubles: &[(TroubleKind, &str)]) -> Vec<Finding> {
    let logged = |(kind, line): &(TroubleKind, &str)| LoggedTrouble {
        kind: *kind,
        times: 1,
        line: (*line).to_owned(),
        ..LoggedTrouble::default()
    };
    let window = Window { error_log: troubles.iter().map(logged).collect(), ..Window::default() };
    crate::diagnose(&window).findings
}

/// A client session.
pub(crate) fn session(connection_id: u64, command: &str, state: &str, statement: &str) -> ServerThread {
    ServerThread {
        internal_id: Some(connection_id + 40),
        connection_id: Some(connection_id),
        thread_os_id: Some(connection_id + 4000),
        name: "thread/sql/one_connection".into(),
        is_connection: true,
        user: "app".into(),
        command: command.into(),
        state: state.into(),
        statement: (!statement.is_empty()).then(|| statement.to_owned()),
        time_s: 3.0,
        ..ServerThread::default()
    }
}

/// An open transaction.
pub(crate) fn transaction(connection_id: u64, state: &str, age_s: f64) -> Transaction {
    Transaction {
        id: (connection_id + 9000).to_string(),
        connection_id: Some(connection_id),
        state: state.into(),
        age_s,
        rows_modified: 1,
        ..Transaction::default()
    }
}

impl Build {
    /// A server of which only the process list is read, with so many sessions in a state in each list.
    pub(crate) fn waiting(count: u64, state: &'static str) -> Self {
        let sessions = move |_| (0..count).map(|at| session(20 + at, "Query", state, "SELECT 1")).collect();
        Self::busy("8.0.36").sessions(sessions).remote().without_profile()
    }

    /// Changes every sample.
    pub(crate) fn each(mut self, change: impl Fn(f64, &mut ServerSample, &mut HostSample)) -> Self {
        for sample in &mut self.0.samples {
            change(sample.at_s, &mut sample.server, &mut sample.host);
        }
        self
    }

    /// A server elsewhere: nothing of its host can be read.
    pub(crate) fn remote(mut self) -> Self {
        self.0.server.pid = None;
        let why = || Unavailable::because("the server is not on this host");
        self.0.server.no_pid = Some(why());
        self.each(|_, _, host| {
            *host = HostSample {
                effective_cpus: Reading::Unavailable(why()),
                process: Reading::Unavailable(why()),
                threads: Reading::Unavailable(why()),
                ..HostSample::default()
            };
        })
    }

    /// A server that takes no session: nothing of it can be asked.
    pub(crate) fn no_session(mut self, kind: NoSessionKind) -> Self {
        self.0.server.no_session = Some(NoSession { kind, because: "no session".into() });
        self.0.server.version = None;
        self.each(|_, server, _| *server = ServerSample::default())
    }

    /// The window.
    pub(crate) fn window(self) -> Window {
        self.0
    }
}
