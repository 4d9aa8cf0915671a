//! One end of the control stream, at both sides.
//!
//! Messages leave by a task of its own, so that an end that writes still reads: otherwise both could wait for each other.

use std::{
    marker::PhantomData,
    time::{Duration, Instant},
};

use rc3_net::{Connection, RecvStream, SendStream};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use super::{
    asked::Asked,
    background, ended,
    message::{
        self, FromReceiver, FromSender, MESSAGE_BYTES_MAX, MESSAGES_AHEAD, MessageError, Messages, Refusal,
        Work, listen_up_to,
    },
    outage::patiently,
};
use crate::error::{Error, ErrorKind, Result};

/// Time limit for the last message to arrive.
pub(super) const FINAL_PATIENCE: Duration = Duration::from_secs(3);
/// After this long without a message the receiver sends `Working`.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(5);

/// Takes messages in their frames. Closed when the stream is broken.
pub(crate) type Outbox = mpsc::Sender<Vec<u8>>;

/// Begins to write frames to a stream, which the task returns when no more can come.
pub(crate) fn outbox<W: AsyncWrite + Unpin + Send + 'static>(mut stream: W) -> (Outbox, JoinHandle<W>) {
    let (outbox, mut frames) = mpsc::channel::<Vec<u8>>(MESSAGES_AHEAD);
    let writer = tokio::spawn(async move {
        let mut batch = Vec::new();
        while frames.recv_many(&mut batch, MESSAGES_AHEAD).await > 0 {
            let bytes = batch.concat();
            batch.clear();
            if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                break;
            }
        }
        stream
    });
    (outbox, writer)
}

/// Ends a stream whose outbox is dropped, and waits until all of it has arrived.
pub(crate) async fn finished(writer: &mut JoinHandle<SendStream>) {
    if let Ok(mut stream) = writer.await {
        let _ = stream.finish();
        let _ = stream.stopped().await;
    }
}

/// The control stream of a connection, before messages go both ways at once.
pub(crate) struct Control {
    pub(crate) connection: Connection,
    pub(crate) send: SendStream,
    pub(crate) recv: BufReader<RecvStream>,
}

impl Control {
    /// Writes one message.
    pub(crate) async fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let written = self.send.write_chunk(message::encode(message).into()).await;
        written.map_err(|error| ended(&self.connection, Error::lost(error)))
    }

    /// Reads one message.
    pub(crate) async fn hear<M: DeserializeOwned>(&mut self) -> Result<M> {
        message::read(&mut self.recv).await.map_err(|error| ended(&self.connection, error))
    }
}

/// The control stream of a transfer whose secret was right; this side sends `S` and gets `R`.
pub(crate) struct Channel<S, R> {
    pub(crate) connection: Connection,
    pub(super) outbox: Outbox,
    writer: JoinHandle<SendStream>,
    messages: Messages<R>,
    /// For each message that the other side owes, and for it to read one.
    pub(super) patience: Duration,
    /// Time of the last write.
    written: Instant,
    sent: PhantomData<fn(S)>,
}

impl<S: Serialize, R: DeserializeOwned + Send + 'static> Channel<S, R> {
    /// The other side may say messages of at most so many bytes.
    pub(crate) fn new(
        bytes_max: usize,
        Control { connection, send, recv }: Control,
        patience: Duration,
    ) -> Self {
        let ((outbox, writer), messages) = (outbox(send), listen_up_to(bytes_max, recv));
        Self { connection, outbox, writer, messages, patience, written: Instant::now(), sent: PhantomData }
    }

    /// The next message.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub(crate) async fn hear(&mut self) -> Result<R> {
        let heard = self.messages.recv().await.unwrap_or(Err(MessageError::Ended));
        heard.map_err(|error| ended(&self.connection, error))
    }

    /// Sends a message, when there is room for it.
    pub(crate) async fn say(&mut self, message: &S) -> Result<()> {
        self.written = Instant::now();
        let sending = self.outbox.send(message::encode(message));
        let queued = patiently(&self.connection, self.patience, sending).await;
        queued.ok_or_else(|| Error::stalled(self.patience))?.map_err(|_| self.broken())
    }

    /// Why the outbox is closed.
    pub(super) fn broken(&self) -> Error {
        ended(&self.connection, Error::lost("the control stream broke"))
    }

    /// Sends the last message, and waits a limited time until it has arrived.
    pub(super) async fn say_last(&mut self, message: &S) {
        let connection = self.connection.clone();
        let said = async {
            if self.say(message).await.is_ok() {
                self.finish().await;
            }
        };
        // Ignore a peer that does not read.
        let _ = patiently(&connection, FINAL_PATIENCE, said).await;
    }

    /// Says nothing more, and waits until all of it has arrived.
    pub(crate) async fn finish(&mut self) {
        (self.outbox, _) = mpsc::channel(1);
        finished(&mut self.writer).await;
    }
}

/// The receiver's end. Admits only messages that name what this side asked for.
pub(crate) struct Session {
    pub(super) channel: Channel<FromReceiver, FromSender>,
    pub(super) asked: Asked,
    /// Whether the sender knows that it has to wait for its turn.
    waits: bool,
}

impl Session {
    pub(super) fn new(control: Control, patience: Duration, asked: Asked) -> Self {
        Self { channel: Channel::new(MESSAGE_BYTES_MAX, control, patience), asked, waits: false }
    }

    /// The next message, which names only what this side asked for.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub(super) async fn hear(&mut self) -> Result<FromSender> {
        let message = self.channel.hear().await?;
        if self.asked.admits(&message) {
            Ok(message)
        } else {
            Err(unasked("something that was not asked for"))
        }
    }

    /// The next message before files; `step` is what the sender owes. Work of `extra` time is allowed for.
    ///
    /// # Errors
    /// [`ErrorKind::Stalled`] when it does not come.
    pub(super) async fn hear_soon(&mut self, step: &'static str, extra: Duration) -> Result<FromSender> {
        let patience = self.channel.patience.saturating_add(extra);
        let silent = || Err(Error::silent("the sender", &format!("send {step}"), patience));
        let connection = self.channel.connection.clone();
        patiently(&connection, patience, self.hear()).await.unwrap_or_else(silent)
    }

    pub(super) async fn say(&mut self, message: &FromReceiver) -> Result<()> {
        self.channel.say(message).await
    }

    /// Ends the transfer for this error, with a reason for the sender's user.
    pub(super) async fn refuse<T>(&mut self, refusal: Refusal, error: Error) -> Result<T> {
        self.channel.say_last(&FromReceiver::Refused { refusal, reason: message::reason(&error) }).await;
        Err(error)
    }

    /// Sends `Working` if nothing was sent for a while.
    pub(super) async fn sign_of_life(&mut self, work: Work) -> Result<()> {
        if self.channel.written.elapsed() < SIGN_OF_LIFE_EVERY {
            return Ok(());
        }
        self.say(&FromReceiver::Working(work)).await
    }

    /// Signals that the sender has to wait for its turn: at once, and then now and then.
    pub(super) async fn reassure(&mut self) -> Result<()> {
        let work = Work::AnotherTransfer;
        if std::mem::replace(&mut self.waits, true) {
            return self.sign_of_life(work).await;
        }
        self.say(&FromReceiver::Working(work)).await
    }

    /// Runs a task that may block for long, and sends `Working` meanwhile.
    pub(super) async fn blocking<T: Send + 'static>(
        &mut self,
        work: Work,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let mut task = tokio::task::spawn_blocking(task);
        loop {
            match timeout(SIGN_OF_LIFE_EVERY, &mut task).await {
                Ok(done) => return done.map_err(background),
                Err(_) => self.sign_of_life(work).await?,
            }
        }
    }
}

/// The sender names something else than it was asked for.
pub(super) fn unasked(what: &str) -> Error {
    Error::new(
        ErrorKind::Unasked,
        format!("the other side sends {what}"),
        "the other host runs another version of rc3, or is not to be trusted; nothing of it was kept",
    )
}
