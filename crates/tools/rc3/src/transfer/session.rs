//! The receiver's end of the control stream with one sender.

use std::time::{Duration, Instant};

use rc3_net::{Connection, SendStream};
use tokio::time::timeout;

use super::{
    asked::Asked,
    background,
    error::TransferError,
    heard, lost,
    message::{self, FromReceiver, FromSender, Messages, Refusal, Work},
    receive::STEP_PATIENCE,
};

/// Time limit for the last message to arrive.
pub(super) const FINAL_PATIENCE: Duration = Duration::from_secs(3);
/// After this long without a message the receiver sends `Working`.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(5);

/// A sender that has shown the ticket.
pub(super) struct Session {
    pub(super) connection: Connection,
    control: SendStream,
    messages: Messages<FromSender>,
    /// For each message before files.
    patience: Duration,
    /// Time of the last write.
    written: Instant,
    /// Whether nothing was written.
    silent: bool,
    asked: Asked,
}

impl Session {
    pub(super) fn new(connection: Connection, control: SendStream, messages: Messages<FromSender>) -> Self {
        let (patience, written) = (STEP_PATIENCE, Instant::now());
        Self { connection, control, messages, patience, written, silent: true, asked: Asked::default() }
    }

    /// With another limit than [`STEP_PATIENCE`].
    pub(super) fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Admits only messages that name what this side asked for.
    pub(super) fn asked_for(mut self, asked: Asked) -> Self {
        self.asked = asked;
        self
    }

    /// What this side asked for.
    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The next message, which names only what this side asked for.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub(super) async fn hear(&mut self) -> Result<FromSender, TransferError> {
        let message = heard(&self.connection, self.messages.recv().await)?;
        if self.asked.admits(&message) { Ok(message) } else { Err(TransferError::Unasked) }
    }

    /// The next message before files; `step` is what the sender owes. Work of `extra` time is allowed for.
    ///
    /// # Errors
    /// [`TransferError::Silent`] when it does not come.
    pub(super) async fn hear_soon(
        &mut self,
        step: &'static str,
        extra: Duration,
    ) -> Result<FromSender, TransferError> {
        let patience = self.patience.saturating_add(extra);
        timeout(patience, self.hear()).await.unwrap_or(Err(TransferError::Silent { step, patience }))
    }

    pub(super) async fn say(&mut self, message: &FromReceiver) -> Result<(), TransferError> {
        let written = self.control.write_chunk(message::encode(message).into()).await;
        (self.written, self.silent) = (Instant::now(), false);
        written.map_err(|error| match self.connection.close_reason() {
            Some(reason) => lost(reason),
            None => TransferError::Lost(error.to_string()),
        })
    }

    /// Sends a message and waits a limited time until it has arrived.
    pub(super) async fn send_final(&mut self, message: &FromReceiver) {
        let said = async {
            if self.say(message).await.is_ok() {
                let _ = self.control.finish();
                let _ = self.control.stopped().await;
            }
        };
        // Ignore a sender that does not read.
        let _ = timeout(FINAL_PATIENCE, said).await;
    }

    /// Refuses, with a reason for the sender's user.
    pub(super) async fn refuse(&mut self, refusal: Refusal, reason: String) {
        let reason = message::reason(reason);
        self.send_final(&FromReceiver::Refused { refusal, reason }).await;
    }

    /// Sends `Working` if nothing was sent for a while.
    pub(super) async fn sign_of_life(&mut self, work: Work) -> Result<(), TransferError> {
        if self.written.elapsed() < SIGN_OF_LIFE_EVERY {
            return Ok(());
        }
        self.say(&FromReceiver::Working(work)).await
    }

    /// Signals that the sender has to wait for its turn: at once, and then now and then.
    pub(super) async fn reassure(&mut self) -> Result<(), TransferError> {
        if self.silent {
            return self.say(&FromReceiver::Working(Work::AnotherTransfer)).await;
        }
        self.sign_of_life(Work::AnotherTransfer).await
    }

    /// Runs a task that may block for long, and sends `Working` meanwhile.
    pub(super) async fn blocking<T: Send + 'static>(
        &mut self,
        work: Work,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TransferError> {
        let mut task = tokio::task::spawn_blocking(task);
        loop {
            match timeout(SIGN_OF_LIFE_EVERY, &mut task).await {
                Ok(done) => return done.map_err(background),
                Err(_) => self.sign_of_life(work).await?,
            }
        }
    }

    /// The sender's reason for resetting a stream, if it gives one.
    pub(super) async fn abort_reason(&mut self) -> Option<TransferError> {
        let abort = async {
            loop {
                match self.hear().await {
                    Ok(FromSender::Abort { reason }) => return Some(TransferError::peer(&reason)),
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        };
        timeout(FINAL_PATIENCE, abort).await.ok().flatten()
    }
}
