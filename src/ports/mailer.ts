/** What we ask of mail. */

/** The mail server did not take a message. */
export class MailFailure extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MailFailure'
  }
}

/** Sends mail. */
export interface Mailer {
  /** Hands one message to the mail server; throws MailFailure where that does not take it. `to` is one address, `text` plain. */
  send(mail: { to: string; subject: string; text: string }): Promise<void>
  /** Throws where the mail server cannot be reached or refuses to let us in. */
  check(): Promise<void>
  close(): void
}
