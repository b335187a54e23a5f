//! Pings by mail in alerts.

use base64::Engine as _;
use overdue::domain::project::{KeyAccess, KeyLabel};
use overdue::operations;

use super::*;

#[tokio::test]
async fn an_alert_shows_subject_and_text_of_a_mail_and_never_its_ping_address() {
    let site = NotifierFixture::start().await;
    let receiver = Receiver::start([ResponseAction::status(200)]).await;
    let (_, key) =
        operations::key::create(&site.handle, MAIN, KeyAccess::Ping, KeyLabel::default())
            .await
            .unwrap();
    site.create_channel("ntfy", &[("url", &receiver.url("")), ("topic", "home")])
        .await;
    let failure_kw = Some(Keywords::parse("failed").unwrap());
    let edit = CheckEdit {
        failure_kw,
        filter_subject: Some(true),
        channels: Some(ChannelSelection::All),
        ..CheckEdit::default()
    };
    site.execute(create_check(MAIN, 7, edit)).await;
    let address = format!("{key}+nightly-backup@hc.test");
    let text = base64::prelude::BASE64_STANDARD.encode(format!(
        "disk full\nsent to {address}\nand {}@hc.test\n",
        Uuid::from_u128(7)
    ));
    let mail = format!(
        "Received: from nas\r\n\tfor <{address}>; Fri, 15 Jan 2027 08:00:00 \
         +0000\r\nDelivered-To: {address}\r\nTo: {address}\r\nSubject: \
         =?utf-8?q?Backup_failed?=\r\nContent-Type: multipart/alternative; \
         boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: \
         base64\r\n\r\n{text}\r\n--b--\r\n"
    );
    site.execute(Command::Mail(vec![email_ping(
        7,
        "Backup failed",
        None,
        mail,
    )]))
    .await;
    let requests = receiver.wait_for(1).await;
    let message = requests[0].text();
    assert!(
        message.contains("Backup failed")
            && message.contains("disk full")
            && message.contains("sent to ***"),
        "{message}"
    );
    for hidden in [
        &*key,
        "00000000-0000-0000-0000-000000000007",
        "Delivered-To",
        "Received",
        "boundary",
        &text,
    ] {
        assert!(!message.contains(hidden), "{hidden}: {message}");
    }
    site.stop().await;
}
