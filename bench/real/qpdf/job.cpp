// SPDX-License-Identifier: BSL-1.0
// A file of small pages is made, read again, changed and written; the written files are the output.
#include "job.hpp"

#include <qpdf/Buffer.hh>
#include <qpdf/QPDF.hh>
#include <qpdf/QPDFObjectHandle.hh>
#include <qpdf/QPDFPageDocumentHelper.hh>
#include <qpdf/QPDFPageObjectHelper.hh>
#include <qpdf/QPDFWriter.hh>

#include <memory>
#include <string>

namespace {

std::shared_ptr<Buffer> written(QPDF& file) {
    QPDFWriter writer(file);
    writer.setOutputMemory();
    writer.setStaticID(true);
    writer.setCompressStreams(false);
    writer.write();
    return writer.getBufferSharedPointer();
}

std::shared_ptr<Buffer> made() {
    QPDF file;
    file.emptyPDF();
    for (int i = 0; i < 2000; ++i) {
        const std::string number = std::to_string(i);
        const auto content =
            QPDFObjectHandle::newStream(&file, "BT /F1 24 Tf 72 720 Td (Page " + number + ") Tj ET\n");
        auto page = QPDFObjectHandle::parse(
            "<< /Type /Page /MediaBox [0 0 612 792] /Resources << /Font << /F1 << /Type /Font /Subtype "
            "/Type1 /BaseFont /Helvetica >> >> /ProcSet [/PDF /Text] >> /Number " +
            number + " >>");
        page.replaceKey("/Contents", content);
        QPDFPageDocumentHelper(file).addPage(QPDFPageObjectHelper(file.makeIndirectObject(page)), false);
    }
    return written(file);
}

}  // namespace

void bench::job(digest& output, double scale) {
    const std::shared_ptr<Buffer> original = made();
    for (std::size_t round = 0; round < scaled(3, scale); ++round) {
        QPDF file;
        file.processMemoryFile("job.pdf", reinterpret_cast<const char*>(original->getBuffer()),
                               original->getSize());
        for (auto& page : QPDFPageDocumentHelper(file).getAllPages())
            page.getObjectHandle().replaceKey("/Rotate", QPDFObjectHandle::newInteger(90));
        const std::shared_ptr<Buffer> result = written(file);
        output.add(std::string_view(reinterpret_cast<const char*>(result->getBuffer()), result->getSize()));
    }
}
