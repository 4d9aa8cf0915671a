//! The receiver's end of a conversation with one sender.

use std::time::{Duration, Instant};

use rc3_net::{Connection, SendStream};
use tokio::time::timeout;

use super::{
    background,
    error::TransferError,
    heard, lost,
    message::{self, FromReceiver, FromSender, Messages, Refusal, Work},
};

/// How long the last message may take to arrive.
pub(super) const FINAL_PATIENCE: Duration = Duration::from_secs(3);
/// After so long without a message the sender hears that the receiver is working.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(5);

/// A sender that has shown the ticket.
pub(super) struct Session {
    pub(super) connection: Connection,
    control: SendStream,
    messages: Messages<FromSender>,
    /// When it was last written to.
    written: Instant,
}

impl Session {
    pub(super) fn new(connection: Connection, control: SendStream, messages: Messages<FromSender>) -> Self {
        Self { connection, control, messages, written: Instant::now() }
    }

    /// The next message.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn hear(&mut self) -> Result<FromSender, TransferError> {
        heard(&self.connection, self.messages.recv().await)
    }

    pub(super) async fn say(&mut self, message: &FromReceiver) -> Result<(), TransferError> {
        let written = self.control.write_chunk(message::encode(message).into()).await;
        self.written = Instant::now();
        written.map_err(|error| match self.connection.close_reason() {
            Some(reason) => lost(reason),
            None => TransferError::Lost(error.to_string()),
        })
    }

    /// Says it and waits, not for ever, until it has arrived.
    pub(super) async fn send_final(&mut self, message: &FromReceiver) {
        let said = async {
            if self.say(message).await.is_ok() {
                let _ = self.control.finish();
                let _ = self.control.stopped().await;
            }
        };
        // Who does not listen need not hear.
        let _ = timeout(FINAL_PATIENCE, said).await;
    }

    pub(super) async fn refuse(&mut self, refusal: Refusal, reason: String) {
        let reason = message::reason(reason);
        self.send_final(&FromReceiver::Refused { refusal, reason }).await;
    }

    /// Says that it is working, if it has said nothing for a while.
    pub(super) async fn sign_of_life(&mut self, work: Work) -> Result<(), TransferError> {
        if self.written.elapsed() < SIGN_OF_LIFE_EVERY {
            return Ok(());
        }
        self.say(&FromReceiver::Working(work)).await
    }

    /// Does what may block for long, with signs of life.
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

    /// Why a stream was given up, if the sender says so.
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
