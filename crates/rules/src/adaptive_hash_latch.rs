//! How much of the time goes into the latch of the adaptive hash index: for its cause and for the proposal to switch it off.

use spindoctor_model::stack::{Profile, ThreadState};
use spindoctor_model::{Unavailable, Window};

use crate::spin_samples::{self, SpinSamples};

/// What switches the index.
pub(crate) const VARIABLE: &str = "innodb_adaptive_hash_index";

/// Its functions (btr0sea.cc) all begin so.
const FUNCTIONS: &str = "btr_search_";

/// Time in the latch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HashLatch {
    /// Share of the CPU samples that spin below its functions, 0 to 1; None where too few samples were taken.
    pub(crate) spinning: Option<f64>,
    /// Share of the statements at work that wait for a latch below its functions, 0 to 1.
    pub(crate) waiting: f64,
}

impl HashLatch {
    /// Of a window. None where the server is nearly idle; an error where no stack was taken, or none names InnoDB's functions.
    pub(crate) fn from_window(window: &Window) -> Result<Option<Self>, Unavailable> {
        let stacks = window.profile.value().filter(|profile| !profile.observations.is_empty());
        let samples = match (SpinSamples::unless_idle(window), stacks) {
            (Ok(None), _) => return Ok(None),
            (Ok(samples), _) => samples,
            // Stacks say enough where no sample was taken.
            (Err(_), Some(_)) => None,
            (Err(why), None) => return Err(why),
        };
        let profile = samples.as_ref().map(SpinSamples::profile).or(stacks);
        let Some(profile) = profile.filter(|profile| spin_samples::names_innodb(profile)) else {
            return Err(spin_samples::without_names(""));
        };
        let spinning = samples.map(|samples| {
            samples.share_of(|sample| {
                sample.spin.is_some()
                    && spin_samples::names(profile, sample).any(|name| name.starts_with(FUNCTIONS))
            })
        });
        Ok(Some(Self { spinning, waiting: waiting(profile) }))
    }

    /// The larger of the two.
    pub(crate) fn share(&self) -> f64 {
        self.spinning.unwrap_or(0.0).max(self.waiting)
    }
}

/// Share of the threads at work that stand in the latch, from stacks.
fn waiting(profile: &Profile) -> f64 {
    let (mut at_work, mut waiting) = (0.0, 0.0);
    for observation in &profile.observations {
        let mut is_statement = false;
        let mut in_hash = false;
        for name in spin_samples::names(profile, observation) {
            is_statement |= name == "dispatch_command";
            in_hash |= name.starts_with(FUNCTIONS);
        }
        if is_statement && observation.state != ThreadState::NetworkIdle {
            at_work += 1.0;
            waiting += f64::from(u8::from(in_hash && observation.state == ThreadState::Lock));
        }
    }
    waiting / f64::max(at_work, 1.0)
}
