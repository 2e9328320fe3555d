//! Getting in: by the usual address, or by the administrators' where the server has no connection left.

use std::sync::{Arc, Mutex, PoisonError};

use crate::mysql::{ConnectError, Endpoint, Limits, Session, Target};

/// The way to the server, shared by all who connect.
#[derive(Debug, Clone)]
pub(super) struct Door {
    target: Target,
    /// The administrators' address, once the server has said it.
    admin: Arc<Mutex<Option<Endpoint>>>,
}

impl Door {
    pub(super) fn to(target: Target) -> Self {
        Self { target, admin: Arc::default() }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// The server has said where it listens for administrators.
    pub(super) fn set_admin(&self, endpoint: Option<Endpoint>) {
        *self.admin.lock().unwrap_or_else(PoisonError::into_inner) = endpoint;
    }

    /// Connects; by the administrators' address where every other connection is taken (1040, and the account's own limit).
    ///
    /// # Errors
    /// The usual address's; where the other one fails too, that shows nothing more.
    pub(super) async fn connect(&self, limits: &Limits) -> Result<Session, ConnectError> {
        let error = match Session::connect(&self.target, limits).await {
            Err(error @ (ConnectError::TooManyConnections { .. } | ConnectError::AccountLimit { .. })) => {
                error
            }
            outcome => return outcome,
        };
        let admin = self.admin.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(endpoint) = admin else { return Err(error) };
        let mut target = self.target.clone();
        target.endpoint = endpoint;
        Session::connect(&target, limits).await.map_err(|_| error)
    }
}
