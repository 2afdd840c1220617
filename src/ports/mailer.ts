/** Interface of mail delivery. */

/** The mail server did not accept a message. */
export class MailFailure extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MailFailure'
  }
}

export interface Mailer {
  /** Sends a plain-text message to one address. Throws MailFailure if the mail server does not accept it. */
  send(mail: { to: string; subject: string; text: string }): Promise<void>
  /** Throws if the mail server is unavailable or refuses the credentials. */
  check(): Promise<void>
  close(): void
}
