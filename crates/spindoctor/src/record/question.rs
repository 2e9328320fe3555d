//! What the server is asked about something that happened: the plan as it is now, of a statement whose plan changed.

use spindoctor_collect::mysql::Target;
use spindoctor_collect::plan_now;
use spindoctor_model::{Diagnosis, Suspect, Window};

use super::plans;

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The statement.
    pub suspect: Suspect,
    /// The window that shows the change.
    pub window: Window,
}

impl Question {
    /// What the rule says with the answer, and how long that took, milliseconds.
    pub async fn answered(mut self, target: &Target) -> (Diagnosis, f64) {
        plan_now::read(target, &self.suspect, &mut self.window).await;
        (plans::diagnosis(&self.window), self.window.cost.server_busy_ms)
    }
}
