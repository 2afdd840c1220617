/** Mailer over SMTP. */
import { createTransport } from 'nodemailer'
import { type Mailer, MailFailure } from '../ports/mailer.ts'

/**
 * Opens a mailer. `url` is smtp://user:password@host:587 (STARTTLS if offered) or smtps://…; `from` is an address with or without a name.
 */
export function smtpMailer({ url, from }: { url: string; from: string }): Mailer {
  const transport = createTransport(
    { url, connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 30_000, disableFileAccess: true, disableUrlAccess: true },
    { from },
  )
  return {
    async send({ to, subject, text }) {
      try {
        // An address object instead of a header line cannot contain a second recipient.
        await transport.sendMail({ to: { name: '', address: to }, subject, text })
      } catch (error) {
        throw new MailFailure((error as Error).message)
      }
    },
    check: async () => void (await transport.verify()),
    close: () => transport.close(),
  }
}
