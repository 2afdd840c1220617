/** Mail over SMTP. */
import { createTransport } from 'nodemailer'
import { type Mailer, MailFailure } from '../ports/mailer.ts'

/** Makes it; `url` as smtp://user:password@host:587 (STARTTLS where the server has it) or smtps://…, `from` an address with or without a name. */
export function smtpMailer({ url, from }: { url: string; from: string }): Mailer {
  const transport = createTransport(
    { url, connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 30_000, disableFileAccess: true, disableUrlAccess: true },
    { from },
  )
  return {
    async send({ to, subject, text }) {
      try {
        // An address of its own, never a line to be taken apart: nothing in it can name a second receiver.
        await transport.sendMail({ to: { name: '', address: to }, subject, text })
      } catch (error) {
        throw new MailFailure((error as Error).message)
      }
    },
    check: async () => void (await transport.verify()),
    close: () => transport.close(),
  }
}
