//! Connections that stay open for the next question to the same servers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use crate::wire::connection::Connection;

/// How long goodbyes may take, all together.
const GOODBYES: Duration = Duration::from_millis(500);

/// Connections that are logged in and prepared for statements that read, by the server's place in the list.
#[derive(Default)]
pub(crate) struct Kept(Mutex<HashMap<usize, Connection>>);

impl Kept {
    fn all(&self) -> MutexGuard<'_, HashMap<usize, Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection whose last answer is whole.
    pub(crate) fn keep(&self, server: usize, connection: Connection) {
        self.all().insert(server, connection);
    }

    /// The connection to this server. None where there is none, or where the server closed it meanwhile: it may close what is idle
    /// for too long (`wait_timeout`).
    pub(crate) fn take(&self, server: usize) -> Option<Connection> {
        let connection = self.all().remove(&server)?;
        connection.is_idle().then_some(connection)
    }

    /// Says goodbye on all of them.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.all());
        let goodbyes = async {
            for connection in all.into_values() {
                connection.close().await;
            }
        };
        // A socket that takes no more bytes is not waited for.
        let _ = timeout(GOODBYES, goodbyes).await;
    }
}
