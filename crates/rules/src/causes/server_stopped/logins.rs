//! A server that lets nobody in because what it asks about each login does not answer: who is logged in goes on.

use spindoctor_model::host::ProcessStat;
use spindoctor_model::{Evidence, Finding, SessionTime, TimeClass};

use super::{CAUSE, SHOWN_FROM, SILENT_SCORE, state_of};
use crate::draft::Draft;
use crate::login_wait::{KEPT_OUT, LoginWait};
use crate::time_model::share_of;

/// Classes of sessions that do something.
const AT_WORK: [TimeClass; 4] = [TimeClass::Cpu, TimeClass::Spin, TimeClass::Kernel, TimeClass::Running];

/// Of the time of the sessions that wait, the part in logins from which on they are what is wrong. By judgement: most of it.
const MOST: f64 = 0.5;

/// Logins that the server keeps waiting, by the stacks of their threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logins {
    wait: LoginWait,
    /// True where sessions that are logged in work.
    others_go_on: bool,
}

impl Logins {
    /// None where they are not most of what waits, or where they do not wait for what the server itself asks.
    pub(super) fn from_time(time: &SessionTime) -> Option<Self> {
        let logins = time.classes.iter().find(|one| one.class == TimeClass::Login)?;
        let wait = LoginWait::from_share(logins);
        let at_work = AT_WORK.into_iter().map(|class| share_of(time, class)).sum::<f64>();
        (wait.is_below() && logins.share >= MOST * (1.0 - at_work))
            .then_some(Self { wait, others_go_on: at_work >= SHOWN_FROM })
    }

    /// What else is seen in the session time is not explained by it.
    pub(super) fn finding(
        self,
        because: &str,
        process: Option<&ProcessStat>,
        seen: Vec<Evidence>,
    ) -> Finding {
        let go_on = if self.others_go_on { "; sessions that are logged in go on" } else { "" };
        Draft::new(
            &CAUSE,
            SILENT_SCORE,
            format!("New logins are not answered{}{go_on}", self.wait.headline()),
        )
        .why(self.wait.why().unwrap_or_default())
        .evidence(Evidence::new("session", because, "", "connect").expected("an answer"))
        .evidence_if(process.map(state_of))
        .evidence_all(seen.into_iter())
        .remedy(self.wait.remedy())
        .explains(&KEPT_OUT)
        .elsewhere()
        .finding()
    }
}
