//! Sends the steps of a message over the outgoing connections.

use std::time::Duration;

use super::MessageSender;
use crate::channels::send_step::{AlertMail, ChannelRequest, ShellInvocation};
use crate::channels::transport_reply::{ChannelResponse, CommandStatus, MailStage};
use crate::channels::{SendStep, TransportReply};
use crate::domain::project::Channel;
use crate::outbound::{
    CertificatePin, HttpRequest, MailError, MailReceipt, MailReply, MailStep, Outbound,
    OutgoingMail, ProcessExit, RedirectPolicy, RequestPermit, SendError, ShellCommand, Trust,
};

/// Maximum time of an HTTP request; the second one is for slow receivers, mails and commands.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const SLOW_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

impl MessageSender {
    /// Runs a step and returns the reply. `permit`: for an HTTP request, if the caller has one.
    pub(in crate::notifier) async fn run_request(
        &self,
        step: &SendStep,
        channel: &Channel,
        permit: Option<RequestPermit>,
    ) -> TransportReply {
        let outbound = self.outbound.for_project(channel.project);
        let reply = match step {
            SendStep::Http(request) => send_http(&outbound, request, channel, permit).await,
            SendStep::Mail(mail) => send_mail(&outbound, mail).await,
            SendStep::Command(shell) => run_command(&outbound, shell).await,
            // The step contains the reason; nothing is sent.
            SendStep::Unsendable(reason) => Ok(TransportReply::NoReply {
                error: reason.clone(),
                may_have_arrived: false,
            }),
        };
        reply.unwrap_or_else(|error| TransportReply::NoReply {
            error: error.to_string(),
            may_have_arrived: error.may_have_arrived,
        })
    }
}

async fn send_http(
    outbound: &Outbound,
    request: &ChannelRequest,
    channel: &Channel,
    permit: Option<RequestPermit>,
) -> Result<TransportReply, SendError> {
    let pin = channel.settings.common().tls_pin;
    let trust = if channel.set_by_operator {
        Trust::Operator
    } else {
        Trust::Api
    };
    let request = HttpRequest {
        method: request.method.name().into(),
        url: request.url.clone(),
        headers: request.headers.clone(),
        body: request.body.clone().into(),
        redirects: if request.is_user_url {
            RedirectPolicy::Follow
        } else {
            RedirectPolicy::None
        },
        pin: pin.map(CertificatePin::from_bytes),
        timeout: if request.is_slow {
            SLOW_REQUEST_TIMEOUT
        } else {
            REQUEST_TIMEOUT
        },
    };
    let response = match permit {
        Some(permit) => outbound.send_http_reserved(permit, request, trust).await?,
        None => outbound.send_http(request, trust).await?,
    };
    Ok(TransportReply::Http(ChannelResponse {
        status: response.status,
        headers: response.headers,
        body: response.body,
    }))
}

async fn send_mail(outbound: &Outbound, mail: &AlertMail) -> Result<TransportReply, SendError> {
    let headers = mail
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let outgoing = OutgoingMail {
        to: mail.to.clone(),
        subject: mail.subject.clone(),
        text: mail.text.clone(),
        html: Some(mail.html.clone()).filter(|html| !html.is_empty()),
        id: mail.message_id.clone(),
        in_reply_to: mail.in_reply_to.clone(),
        date: mail.date,
        headers,
        attachment: mail.attachment.clone(),
        timeout: SLOW_REQUEST_TIMEOUT,
    };
    match outbound.send_mail(outgoing).await {
        Ok(receipt) => Ok(TransportReply::Mail {
            code: 250,
            stage: MailStage::Content,
            text: describe_refusals(mail, &receipt),
        }),
        Err(MailError::Refused(MailReply { step, code, text })) => {
            let stage = match step {
                MailStep::Greeting | MailStep::Login | MailStep::Sender => MailStage::Session,
                MailStep::Recipient => MailStage::Recipient,
                MailStep::Message => MailStage::Content,
            };
            Ok(TransportReply::Mail { code, stage, text })
        }
        Err(MailError::Send(error)) => Err(error),
    }
}

/// Recipients that the server refused while it accepted the mail for others, with its replies.
fn describe_refusals(mail: &AlertMail, receipt: &MailReceipt) -> String {
    let describe = |(index, reply): &(usize, MailReply)| {
        let recipient = mail.to.get(*index).map_or("", String::as_str);
        format!("{recipient}: {} {}", reply.code, reply.text)
    };
    let refusals: Vec<_> = receipt.refused.iter().map(describe).collect();
    refusals.join("; ")
}

async fn run_command(
    outbound: &Outbound,
    shell: &ShellInvocation,
) -> Result<TransportReply, SendError> {
    let command = ShellCommand {
        command: shell.command.clone(),
        environment: shell.environment.clone(),
        input: shell.input.clone(),
        timeout: SLOW_REQUEST_TIMEOUT,
    };
    let end = outbound.run_command(command).await?;
    let status = match end.exit {
        ProcessExit::Exited(status) => CommandStatus::Exit(status),
        ProcessExit::Killed(signal) => CommandStatus::Signal(signal),
        ProcessExit::TimedOut => CommandStatus::Timeout,
    };
    Ok(TransportReply::Command {
        end: status,
        error: end.stderr,
    })
}
