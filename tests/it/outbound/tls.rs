//! Trust in TLS certificates.

use overdue::outbound::{CertificatePin, Outbound, OutboundConfig, SendStage, Trust};

use super::{config, outbound, post, send, with_clock, words};
use crate::support::certificates::{Authority, ServerCertificate};
use crate::support::receiver::{Receiver, ResponseAction};

async fn show(shown: &ServerCertificate) -> Receiver {
    Receiver::start_tls([ResponseAction::status(200)], shown.acceptor.clone()).await
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_the_names_it_signed() {
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let outbound = outbound(OutboundConfig {
        ca_file: Some(authority.file(&directory)),
        ..config()
    });
    let named = show(&authority.issue("localhost")).await;
    let addressed = show(&authority.issue("127.0.0.1")).await;
    assert_eq!(
        send(&outbound, &named.url_at("localhost", "/"))
            .await
            .unwrap()
            .status,
        200
    );
    assert_eq!(
        send(&outbound, &addressed.url("/")).await.unwrap().status,
        200
    );

    let refused = async |receiver: &Receiver, host: &str| {
        let error = send(&outbound, &receiver.url_at(host, "/secret"))
            .await
            .unwrap_err();
        assert_eq!(
            (error.stage, error.may_have_arrived),
            (SendStage::Tls, false)
        );
        assert!(receiver.requests().is_empty());
        words(&error)
    };
    let other = show(&authority.issue("example.org")).await;
    assert_eq!(
        refused(&other, "localhost").await,
        "the certificate of localhost is for another name: use a URL with a name of the \
         certificate, or set its fingerprint as tls-pin of the channel"
    );
    let unnamed = show(&authority.issue_without_names("localhost")).await;
    assert_eq!(
        refused(&unnamed, "localhost").await,
        "the certificate of localhost has no subjectAltName, and the name in its subject is \
         ignored: install a certificate with a subjectAltName, or set its fingerprint as tls-pin \
         of the channel"
    );
    let expired = show(&authority.issue_expired("localhost")).await;
    assert_eq!(
        refused(&expired, "localhost").await,
        "the certificate of localhost has expired"
    );
    let stranger = show(&Authority::new().issue("localhost")).await;
    assert!(refused(&stranger, "localhost").await.starts_with(
        "the certificate of localhost is not signed by a trusted authority: give the"
    ));
}

#[tokio::test]
async fn only_a_pinned_certificate_is_trusted_despite_any_fault() {
    let shown = Authority::new().issue_expired("example.org");
    let receiver = show(&shown).await;
    let outbound = outbound(config());
    let with = async |shown: &ServerCertificate| {
        let mut request = post(&receiver.url("/"), "x");
        request.pin = Some(CertificatePin::from_bytes(shown.fingerprint));
        outbound.send_http(request, Trust::Operator).await
    };
    assert_eq!(with(&shown).await.unwrap().status, 200);
    let error = with(&Authority::new().issue("127.0.0.1"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.stage, words(&error).as_str()),
        (
            SendStage::Tls,
            "the certificate of 127.0.0.1 does not match tls-pin"
        )
    );
    // The kept connection was trusted only for its pin.
    assert_eq!(
        send(&outbound, &receiver.url("/")).await.unwrap_err().stage,
        SendStage::Tls
    );
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn a_self_signed_certificate_is_trusted_if_named_or_pinned() {
    let (itself, shown) = Authority::self_signed("localhost");
    let directory = tempfile::tempdir().unwrap();
    let receiver = show(&shown).await;
    let url = receiver.url_at("localhost", "/");
    let error = send(&outbound(config()), &url).await.unwrap_err();
    let cure =
        "the certificate of localhost is self-signed and not trusted; to trust it, set --ca-file";
    assert!(
        error.is_permanent
            && words(&error) == format!("{cure}, or set its fingerprint as tls-pin of the channel"),
        "{error}"
    );
    // Commands have no channels.
    let error = send(
        &outbound(OutboundConfig {
            mentions_tls_pin: false,
            ..config()
        }),
        &url,
    )
    .await
    .unwrap_err();
    assert_eq!(words(&error), cure);
    let mut request = post(&url, "x");
    request.pin = Some(CertificatePin::from_bytes(shown.fingerprint));
    assert_eq!(
        outbound(config())
            .send_http(request, Trust::Operator)
            .await
            .unwrap()
            .status,
        200
    );
    let with_file = outbound(OutboundConfig {
        ca_file: Some(itself.file(&directory)),
        ..config()
    });
    assert_eq!(send(&with_file, &url).await.unwrap().status, 200);
    // It is valid only for its own names.
    let error = send(&with_file, &receiver.url("/")).await.unwrap_err();
    assert!(
        words(&error).starts_with(
            "the certificate of 127.0.0.1 is for another name: use a URL with a name of the \
             certificate"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn roots_are_read_again_but_not_often() {
    let old = Authority::new();
    let new = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    roots_that_change(&old, &new, &directory).await;
    // It was created again with the same name.
    let old = Authority::named("home");
    let new = Authority::named("home");
    let directory = tempfile::tempdir().unwrap();
    roots_that_change(&old, &new, &directory).await;
}

async fn roots_that_change(old: &Authority, new: &Authority, directory: &tempfile::TempDir) {
    let (outbound, clock) = with_clock(OutboundConfig {
        ca_file: Some(old.file(directory)),
        ..config()
    });
    let receiver = show(&new.issue("localhost")).await;
    let url = receiver.url_at("localhost", "/");
    assert_eq!(
        send(&outbound, &url).await.unwrap_err().stage,
        SendStage::Tls
    );
    new.file(directory);
    clock.advance_secs(599);
    assert_eq!(
        send(&outbound, &url).await.unwrap_err().stage,
        SendStage::Tls
    );
    clock.advance_secs(2);
    assert_eq!(send(&outbound, &url).await.unwrap().status, 200);
}

#[tokio::test]
async fn https_is_not_redirected_to_http() {
    let authority = Authority::new();
    let shown = authority.issue("127.0.0.1");
    let plain = Receiver::start([ResponseAction::status(200)]).await;
    let receiver = Receiver::start_tls(
        [ResponseAction::redirect(302, &plain.url("/"))],
        shown.acceptor.clone(),
    )
    .await;
    let mut request = post(&receiver.url("/"), "x");
    request.pin = Some(CertificatePin::from_bytes(shown.fingerprint));
    assert_eq!(
        outbound(config())
            .send_http(request, Trust::Operator)
            .await
            .unwrap()
            .status,
        302
    );
    assert!(plain.requests().is_empty());
}

#[test]
fn an_unreadable_ca_file_is_reported_at_startup() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("empty.pem");
    std::fs::write(&path, "nothing").unwrap();
    for (path, part) in [
        (path, "there is no CERTIFICATE section in it"),
        ("/nowhere/ca.pem".into(), "/nowhere/ca.pem"),
    ] {
        let config = OutboundConfig {
            ca_file: Some(path),
            ..config()
        };
        let error = Outbound::new(
            config,
            &overdue::util::clock::Clock::System,
            overdue::util::random::Random::System,
        )
        .err()
        .unwrap()
        .to_string();
        assert!(
            error.starts_with("cannot read the certificates of ") && error.contains(part),
            "{error}"
        );
    }
}
